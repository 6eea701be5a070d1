"""The mixture of experts against a slow loop over tokens, its losses, its capacity, and whole models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.model_checks import check_encoder, check_packing, check_padding, check_rows, check_steps
from models.single_parts import attention_context, problems, single_part
from models.tiny_models import build, random_tokens
from torch import Tensor
from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

from kit import TokenBatch, collect_losses
from kit_feedforward.conv import ConvOptions
from kit_feedforward.mixture import MixtureOptions
from kit_feedforward.relu import ReluOptions
from kit_feedforward.swiglu import SwigluOptions

EXPERT = ReluOptions(ffn_multiplier=1)


def mixture(**options: Any) -> Any:
    return single_part(MixtureOptions(**{"expert": EXPERT, "experts": 4, **options}), width=6).eval()


def loop(part: Any, x_ND: Tensor, room: int | None = None) -> Tensor:
    """Token by token, expert by expert."""
    taken = [0] * part.options.experts
    rows = []
    for x in x_ND:
        shares = (part.router @ x).softmax(0)
        best = sorted(range(len(shares)), key=lambda expert: -shares[expert].item())[: part.options.top]
        total = sum(shares[expert] for expert in best) if part.options.weights == "renormalised" else 1
        row = torch.zeros_like(x)
        for expert in best:
            taken[expert] += 1
            if room is None or taken[expert] <= room:
                row = row + shares[expert] / total * part.experts[expert].transform(x)
        rows.append(row)
    return torch.stack(rows)


@pytest.mark.parametrize("weights", ["renormalised", "softmax"])
@pytest.mark.parametrize("top", [2, 3, 4])
def test_against_a_loop(weights: str, top: int) -> None:
    part, x = mixture(top=top, weights=weights), torch.randn(3, 7, 6, dtype=torch.float64)
    found = part(x, attention_context(torch.ones(3, 7, dtype=torch.long)))
    assert (found - loop(part, x.flatten(0, 1)).view(3, 7, 6)).abs().max() < 1e-12


def test_a_single_expert_is_weighed_by_its_share() -> None:
    part, x = mixture(top=1, weights="softmax"), torch.randn(9, 6, dtype=torch.float64)
    assert (part.transform(x) - loop(part, x)).abs().max() < 1e-12


def test_equals_mixtral() -> None:
    config = MixtralConfig(
        hidden_size=32, intermediate_size=20, num_local_experts=4, num_experts_per_tok=2, router_jitter_noise=0.0
    )
    theirs = MixtralSparseMoeBlock(config).double().eval()
    part = single_part(MixtureOptions(expert=SwigluOptions(hidden=20, bias=False), experts=4)).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.3)
        part.router.copy_(theirs.gate.weight)
        for number, expert in enumerate(part.experts):
            expert.gate_up.weight.copy_(theirs.experts.gate_up_proj[number])
            expert.down.weight.copy_(theirs.experts.down_proj[number])
    x = torch.randn(2, 9, 32, dtype=torch.float64)
    wanted = theirs(x)
    wanted = wanted[0] if isinstance(wanted, tuple) else wanted
    # Theirs rounds the router's softmax to float32.
    assert (part(x, attention_context(torch.ones(2, 9, dtype=torch.long))) - wanted).abs().max() < 1e-5


def test_capacity_fills_up_in_the_order_of_tokens_and_only_in_training() -> None:
    part, x = mixture(capacity=0.5), torch.randn(12, 6, dtype=torch.float64)
    room = round(0.5 * 12 * 2 / 4)
    with torch.no_grad():
        part.router[1] *= 5
        assert (part.transform(x) - loop(part, x)).abs().max() < 1e-12
        part.train()
        found = part.transform(x)
        assert (found - loop(part, x, room)).abs().max() < 1e-12
        assert not torch.equal(found, loop(part, x))


def losses_of(part: Any, x: Tensor, context: Any) -> dict[str, Tensor]:
    part.train()(x, context)
    return collect_losses(part)


def test_losses() -> None:
    part, x = mixture(balance=0.5, logit=0.25), torch.randn(1, 20, 6, dtype=torch.float64)
    found = losses_of(part, x, attention_context(torch.ones(1, 20, dtype=torch.long)))
    scores = x[0] @ part.router.T
    shares = scores.softmax(-1)
    work = torch.zeros(4, dtype=torch.float64)
    for row in shares:
        for expert in row.topk(2).indices:
            work[expert] += 1 / 40
    assert found["balance"].item() == pytest.approx(0.5 * 4 * (work * shares.mean(0)).sum().item())
    assert found["router_logit"].item() == pytest.approx(0.25 * scores.exp().sum(1).log().square().mean().item())


def test_even_work_has_a_balance_of_one() -> None:
    part = mixture(balance=1, top=4)
    with torch.no_grad():
        part.router.zero_()
    found = losses_of(part, torch.randn(1, 8, 6).double(), attention_context(torch.ones(1, 8, dtype=torch.long)))
    assert found["balance"].item() == pytest.approx(1)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_padding_has_no_influence_on_losses_or_capacity(left: bool, packed: bool) -> None:
    tokens = random_tokens(5, 9, 2, left=left)
    assert tokens.padding_mask is not None
    context = attention_context(tokens, packed=packed)
    x = torch.randn(3, 9, 6, dtype=torch.float64)
    other = torch.where(tokens.padding_mask[..., None], x, 1000 * torch.randn_like(x))
    alone = mixture(capacity=0.7)
    wanted_losses = losses_of(
        alone, x[tokens.padding_mask][None], attention_context(torch.ones(1, 16, dtype=torch.long))
    )
    wanted = alone(x[tokens.padding_mask][None], attention_context(torch.ones(1, 16, dtype=torch.long)))[0]
    for values in (x, other):
        part = mixture(capacity=0.7)
        given = context.queries.unpad(values)
        found = losses_of(part, given, context)
        assert found.keys() == wanted_losses.keys() == {"balance", "router_logit"}
        assert all((found[name] - wanted_losses[name]).abs() < 1e-12 for name in found)
        out = part(given, context)
        assert ((out if packed else out[tokens.padding_mask]) - wanted).abs().max() < 1e-12


def test_no_losses_outside_training_or_without_weight() -> None:
    part = mixture(balance=0, logit=0)
    context = attention_context(torch.ones(1, 4, dtype=torch.long))
    assert not losses_of(part, torch.randn(1, 4, 6).double(), context)
    mixture()(torch.randn(1, 4, 6).double(), context)
    assert not collect_losses(part)


def test_jitter_only_in_training() -> None:
    part, x = mixture(jitter=0.5, top=4), torch.randn(30, 6, dtype=torch.float64)
    assert torch.equal(part.transform(x), part.transform(x))
    part.train()
    assert not torch.equal(part.transform(x), part.transform(x))


def test_no_tokens_at_all() -> None:
    tokens = TokenBatch(torch.ones(2, 3, dtype=torch.long), torch.zeros(2, 3, dtype=torch.bool))
    part = single_part(MixtureOptions(expert=ReluOptions(dropout=0.1)), width=6)
    found = losses_of(part, torch.randn(2, 3, 6).double(), attention_context(tokens))
    assert all(loss == 0 for loss in found.values())


def test_every_expert_gets_a_gradient_even_without_tokens() -> None:
    """So that processes that train together agree on what there is to exchange."""
    part = mixture(experts=16)
    part(torch.randn(1, 2, 6).double(), attention_context(torch.ones(1, 2, dtype=torch.long))).sum().backward()
    assert all(parameter.grad is not None for parameter in part.parameters())


def test_meta_device() -> None:
    part = mixture().to("meta")
    ids, padding_mask = torch.ones(2, 5, device="meta").long(), torch.ones(2, 5, device="meta").bool()
    assert part(torch.empty(2, 5, 6, device="meta"), attention_context(TokenBatch(ids, padding_mask))).shape == (
        2,
        5,
        6,
    )


def test_router_stays_exact_in_half_precision() -> None:
    part = mixture().float()
    x = torch.randn(40, 6)
    with torch.autocast("cpu", torch.bfloat16):
        scores = part._router_logits(x)
    assert scores.dtype == torch.float32
    assert torch.equal(scores, x @ part.router.T)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (MixtureOptions(expert=EXPERT, experts=2, top=3), "top"),
        (MixtureOptions(expert=EXPERT, top=1), "weights"),
        (MixtureOptions(expert=ConvOptions()), "expert"),
        (MixtureOptions(expert=MixtureOptions(expert=EXPERT, top=9)), "expert"),
    ],
)
def test_what_cannot_work_is_refused(options: MixtureOptions, place: str) -> None:
    found = problems(options)
    assert found[0].path[2] == place
    assert found[0].hint


def test_whole_model() -> None:
    layer = {"feedforward": MixtureOptions(expert=SwigluOptions(ffn_multiplier=1), experts=4, top=2)}
    check_encoder(build("encoder", layer))
    model = build("decoder", layer)
    for check in (check_padding, check_steps, check_rows, check_packing):
        check(model)
    target = random_tokens(7, 7, seed=1)
    changed = target.ids.clone()
    changed[:, 4:] = (changed[:, 4:] + 11) % 49 + 1
    with torch.no_grad():
        difference = (model(target=target) - model(target=changed)).abs().amax((0, 2))
    # The sizes of the experts' shares of work change, and with them the rounding.
    assert difference[:4].max() < 1e-13
    assert difference[4:].min() > 1e-6


def test_losses_of_all_layers_reach_the_objective() -> None:
    model = build("decoder", {"feedforward": MixtureOptions(expert=EXPERT, experts=4)}).train()
    model(target=random_tokens(5, 3))
    found = collect_losses(model)
    assert found.keys() == {"balance", "router_logit"}
    assert found["balance"].item() >= 2 * 0.01 * 0.99
    sum(found.values()).backward()
    assert model.decoder.stack.layers[0].feedforward.router.grad.abs().max() > 0
