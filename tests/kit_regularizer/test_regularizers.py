"""What shapes attention: each term against its formula."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from models.tiny_models import build
from torch import Tensor

from kit import AttentionObserver, AttentionRecorder, Model, collect_losses
from kit_regularizer.disagreement import DisagreementOptions
from kit_regularizer.drop_heads import DropHeadsOptions
from kit_regularizer.entropy import EntropyOptions
from kit_regularizer.entropy_floor import EntropyFloorOptions
from kit_regularizer.guided import GuidedOptions
from kit_regularizer.l0 import L0Options

from .shaped import SOURCE, TARGET, shaped


def term(model: Model, name: str) -> Tensor:
    """What one pass in training adds to the loss."""
    model.train()
    model(SOURCE, TARGET, packed=True)
    found = collect_losses(model)
    assert set(found) == {name}
    return found[name]


def rows(model: Model) -> list[tuple[str, Tensor, list[int]]]:
    """Weights [heads, keys] of every real query with a choice, with how many keys it sees."""
    recorder = AttentionRecorder()
    with torch.no_grad():
        model.eval()(SOURCE, TARGET, observer=recorder)
    found = []
    for site, weights in recorder.by_site.items():
        own = TARGET if site.startswith("decoder") else SOURCE
        keys = TARGET if site.endswith(".attention") and site.startswith("decoder") else SOURCE
        assert own.padding_mask is not None and keys.padding_mask is not None
        for text in range(2):
            for query in range(int(own.padding_mask[text].sum())):
                causal = site.startswith("decoder") and site.endswith(".attention")
                seen = query + 1 if causal else int(keys.padding_mask[text].sum())
                found.append((site, weights[text, :, query], [seen]))
    return found


def test_entropy_is_the_mean_share_over_layers() -> None:
    model = shaped(EntropyOptions(strength=2.0))
    by_site: dict[str, list[float]] = {}
    for site, weights_HK, (seen,) in rows(model):
        if seen > 1:
            for head in weights_HK:
                entropy = -sum(p * math.log(p) for p in head.tolist() if p > 0)
                by_site.setdefault(site, []).append(entropy / math.log(seen))
    wanted = 2.0 * sum(sum(values) / len(values) for values in by_site.values()) / 6
    assert float(term(model, "entropy")) == pytest.approx(wanted, abs=1e-9)


def test_entropy_pulls_where_its_sign_says_and_a_floor_only_from_below() -> None:
    for strength, way in ((1.0, -1), (-1.0, 1)):
        model = shaped(EntropyOptions(strength=strength, where=["encoder"]))
        before = float(term(model, "entropy")) / strength
        term(model, "entropy").backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.05 * parameter.grad
        assert (float(term(model, "entropy")) / strength - before) * way > 0
    low = shaped(EntropyFloorOptions(floor=1e-6))
    assert float(term(low, "entropy_floor")) == 0.0
    assert float(term(shaped(EntropyFloorOptions(floor=1.0, strength=1.0)), "entropy_floor")) > 0


def test_sharp_attention_has_finite_slopes() -> None:
    model = shaped(EntropyOptions())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "query" in name:
                parameter *= 1e4
    term(model, "entropy").backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def test_disagreement_of_position_is_the_overlap_of_weights_without_the_heads_themselves() -> None:
    by_site: dict[str, list[float]] = {}
    same: dict[str, list[float]] = {}
    model = shaped(DisagreementOptions(of="position", strength=1.0))
    for site, weights_HK, _ in rows(model):
        overlap = weights_HK @ weights_HK.T
        own = float(overlap.trace())
        by_site.setdefault(site, []).append((float(overlap.sum()) - own) / 12)
        same.setdefault(site, []).append(float(overlap.sum()) / 16)
    for options, found in ((False, by_site), (True, same)):
        model = shaped(DisagreementOptions(of="position", strength=1.0, include_self=options))
        wanted = sum(sum(values) / len(values) for values in found.values()) / 6
        assert float(term(model, "disagreement")) == pytest.approx(wanted, abs=1e-9)


class _Outputs(AttentionObserver):
    """Keeps what heads give, and what there was to take."""

    def __init__(self) -> None:
        self.given: dict[str, Tensor] = {}
        self.taken: dict[str, Tensor] = {}

    def heads(self, build_context: Any, out_BHQF: Tensor) -> Tensor:
        self.given[build_context.name] = out_BHQF.detach()
        return out_BHQF

    def values(self, build_context: Any, v_BGKF: Tensor, context: Any) -> None:
        self.taken[build_context.name] = v_BGKF.detach()


@pytest.mark.parametrize("of", ["output", "subspace"])
def test_disagreement_of_outputs_and_values_is_a_cosine(of: Any) -> None:
    model = shaped(DisagreementOptions(of=of, strength=1.0, where=["encoder"]))
    outputs = _Outputs()
    model.eval()(SOURCE, TARGET, observer=outputs)
    assert SOURCE.padding_mask is not None
    wanted = []
    for site, found in (outputs.given if of == "output" else outputs.taken).items():
        if site.startswith("encoder"):
            x_NHF = found.transpose(1, 2)[SOURCE.padding_mask]
            cosines = [
                float(torch.cosine_similarity(token[one], token[other], dim=0))
                for token in x_NHF
                for one in range(4)
                for other in range(4)
                if one != other
            ]
            wanted.append(sum(cosines) / len(cosines))
    assert float(term(model, "disagreement")) == pytest.approx(sum(wanted) / 2, abs=1e-6)


def test_dropping_heads_keeps_their_sum_in_the_mean_and_one_always_stays() -> None:
    model = shaped(DropHeadsOptions(share=0.5))
    regularizer = model.regularizers[0].train()
    torch.manual_seed(0)
    build_context = next(
        part.build_context
        for part in model.modules()
        if hasattr(part, "build_context") and part.build_context.role == "attention"
    )
    out = regularizer.heads(build_context, torch.ones(4000, 4, 2, 3))
    assert out.mean().item() == pytest.approx(1.0) and (out.sum(1) == 4).all()
    assert 0.4 < float((out[:, :, 0, 0] == 0).float().mean()) < 0.5  # a little less than half: one stays
    assert torch.equal(regularizer.heads(build_context, torch.ones(9, 1, 1, 1)), torch.ones(9, 1, 1, 1))
    model.eval()
    assert torch.equal(model(SOURCE, TARGET), build("encoder-decoder")(SOURCE, TARGET))


def test_l0_gates_open_and_shut_as_the_paper_has_them() -> None:
    model = shaped(L0Options(strength=0.5, open=0.3))
    # P(gate is not 0) = sigmoid(log odds + 0.791), and it is summed over all 24 heads.
    chance = 1 / (1 + math.exp(-(0.3 - 0.33 * math.log(0.1 / 1.1))))
    assert -0.33 * math.log(0.1 / 1.1) == pytest.approx(0.791, abs=1e-3)
    assert float(term(model, "l0")) == pytest.approx(0.5 * 24 * chance, abs=1e-6)
    regularizer: Any = model.regularizers[0]
    torch.manual_seed(0)
    drawn = torch.stack([regularizer._gate("encoder.0.attention") for _ in range(4000)])
    assert float((drawn > 0).double().mean()) == pytest.approx(chance, abs=0.01)
    model.eval()
    gate = min(1.0, max(0.0, 1.2 / (1 + math.exp(-0.3)) - 0.1))
    assert regularizer.gates()["decoder.1.cross_attention"].tolist() == pytest.approx([gate] * 4)
    with torch.no_grad():
        regularizer.log_odds["encoder_0_attention"].copy_(torch.tensor([9.0, -9.0, 9.0, -9.0]))
        regularizer.log_odds["encoder_1_attention"].fill_(9.0)
    assert regularizer.gates()["encoder.0.attention"].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert not torch.equal(model(SOURCE, TARGET), build("encoder-decoder")(SOURCE, TARGET))
    assert "regularizers.0.log_odds.encoder_0_attention" in model.state_dict()


def test_guided_alignment_is_a_divergence_from_what_is_wanted() -> None:
    model = shaped(GuidedOptions(strength=1.0, heads=4))
    first = term(model, "guided")
    assert float(first) > 0
    first.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    assert float(term(model, "guided")) < float(first)


def test_guided_alignment_toward_given_places_is_their_surprise() -> None:
    from dataclasses import replace

    model = shaped(GuidedOptions(toward="aligned", strength=1.0, heads=2))
    aligned = torch.tensor([[0, 1, -1, 3, 0, 0], [2, 3, 4, 5, 6, 7]])
    target = replace(TARGET, features={"aligned": aligned})
    recorder = AttentionRecorder()
    model.eval()(SOURCE, target, observer=recorder)
    wanted = []
    for layer in range(2):
        mean = recorder.by_site[f"decoder.{layer}.cross_attention"][:, :2].mean(1)
        real = [(0, 0, 0), (0, 1, 1), (0, 3, 3), *((1, query, query + 2) for query in range(6))]
        wanted.append(sum(-math.log(float(mean[place])) for place in real) / len(real))
    model.train()(SOURCE, target, packed=True)
    assert float(collect_losses(model)["guided"]) == pytest.approx(sum(wanted) / 2, abs=1e-5)
    with pytest.raises(Exception, match="needs the feature `aligned`"):
        model(SOURCE, TARGET)
