"""Gradients, other number types, saving and positions, for each attention that scores all pairs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from models.tiny_models import KIT, build, random_tokens, section
from torch import Tensor

from kit import Attention, AttentionContext, AttentionRecorder, BatchLayout, Options, Position, TokenBatch
from kit.model.builder import ModelBuilder
from kit_mask.causal import CausalMask
from kit_position.alibi import AlibiOptions
from kit_position.rotary import RotaryOptions
from kit_position.shaw import ShawOptions
from kit_position.t5 import T5Options
from kit_position.xpos import XposOptions

from .dense import VARIANTS, model_with


@pytest.fixture(params=VARIANTS, scope="module")
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_every_parameter_gets_a_finite_gradient(family: str, variant: str, packed: bool) -> None:
    model = deepcopy(model_with(variant, family)).train()
    scores = model(random_tokens(3, 8), random_tokens(4, 6, seed=1), packed=packed)
    scores.log_softmax(-1)[..., 3].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_hidden_tokens_get_no_gradient(variant: str) -> None:
    """Nor do they change that of others."""
    model: Any = model_with(variant, "encoder")
    tokens = random_tokens(3, 6)
    assert tokens.padding_mask is not None
    seen: list[Tensor] = []
    handle = model.encoder.embedding.register_forward_hook(lambda *call: seen.append(call[2].requires_grad_()))
    scores = model(tokens)
    handle.remove()
    (gradient,) = torch.autograd.grad(scores[tokens.padding_mask].square().sum(), seen)
    assert gradient[~tokens.padding_mask].abs().max() == 0
    assert gradient[tokens.padding_mask].abs().min(0).values.max() > 0


def test_weights_survive_saving(variant: str) -> None:
    model = model_with(variant, "decoder")
    other, tokens = deepcopy(model), random_tokens(5, 3)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.fill_(0.01)
        assert not torch.equal(other(target=tokens), model(target=tokens))
        other.load_state_dict(model.state_dict())
        assert torch.equal(other(target=tokens), model(target=tokens))


def test_bfloat16_stays_close(variant: str) -> None:
    model = deepcopy(model_with(variant, "decoder")).float()
    tokens = random_tokens(6, 4)
    assert tokens.padding_mask is not None
    with torch.no_grad():
        exact = model(target=tokens)[tokens.padding_mask]
        with torch.autocast("cpu", torch.bfloat16):
            rough = model(target=tokens)[tokens.padding_mask]
    assert (rough.float() - exact).abs().max() < 0.1 * exact.abs().max()


def test_works_without_data(variant: str) -> None:
    """On the meta device, where sizes are known and numbers are not."""
    model = deepcopy(model_with(variant, "decoder")).to("meta")
    ids = torch.zeros(2, 5, dtype=torch.long, device="meta")
    assert model(target=ids).shape == (2, 5, 50)


@pytest.mark.parametrize(
    "position",
    [RotaryOptions(), XposOptions(), AlibiOptions(), T5Options(), ShawOptions()],
    ids=lambda options: options.use,
)
def test_every_position_that_suits_it_goes_on_step_by_step(variant: str, position: Options) -> None:
    layer = {"attention": VARIANTS[variant]}
    placed = KIT.registry.part_for_options(type(position)).component
    able = KIT.registry.part_for_options(type(VARIANTS[variant])).component
    assert issubclass(placed, Position) and issubclass(able, Attention)
    refused = list(ModelBuilder(KIT.registry).check(section("decoder", layer, position=position)))
    assert bool(refused) == (not placed.locations <= able.capabilities.positions)
    if refused:
        return
    model: Any = build("decoder", layer, position=position)
    target = random_tokens(4, 6, left=True, seed=1)
    assert target.padding_mask is not None
    with torch.no_grad():
        session = model.start()
        pieces = [TokenBatch(target.ids[:, n : n + 2], target.padding_mask[:, n : n + 2]) for n in (0, 2, 4)]
        found = torch.cat([session.step(piece) for piece in pieces], 1)
        watched, unwatched = model(target=target, observer=AttentionRecorder()), model(target=target)
    assert (found - unwatched)[target.padding_mask].abs().max() < 1e-10
    assert (watched - unwatched)[target.padding_mask].abs().max() < 1e-10


def test_gradients_are_those_of_the_numbers(variant: str) -> None:
    """Against small differences, in float64, with a row that is padded."""
    model: Any = model_with(variant, "decoder")
    tokens = random_tokens(3, 2)
    layout = BatchLayout.of(tokens)
    x = torch.randn(2, 3, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    part, masked = model.decoder.stack.layers[0].attention, AttentionContext(layout, layout, CausalMask())
    assert tokens.padding_mask is not None
    padding_mask = tokens.padding_mask
    assert torch.autograd.gradcheck(lambda y: part(y, None, masked)[padding_mask].sum(0), x, fast_mode=True)
