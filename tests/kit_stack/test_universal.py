"""A universal stack against the same layers laid out one after another."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from models.model_checks import check_decoder, check_encoder
from models.tiny_models import build, random_tokens, section

from kit import AttentionRecorder, Model
from kit_attention.additive import AdditiveOptions
from kit_position.learned import LearnedOptions
from kit_residual.deepnorm import DeepnormOptions
from kit_residual.dual import DualOptions
from kit_residual.hyper import HyperOptions
from kit_residual.pre import PreOptions
from kit_stack.options import LayerOptions
from kit_stack.universal import UniversalOptions, step_sinusoids


def universal(family: str, layer: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Universal stacks in place of plain ones."""
    plain = section(family, layer)
    stacks = {name: getattr(plain, name) for name in family.split("-")}
    return {
        name: UniversalOptions(
            **{field: getattr(stack, field) for field in stack.model_fields_set - {"use", "depth"}}, **options
        )
        for name, stack in stacks.items()
    }


@pytest.mark.parametrize("steps", ["waves", "learned", "none"])
def test_it_is_a_model_like_any_other(steps: Any) -> None:
    for depth in (1, 2):
        options = {"depth": depth, "steps": 3, "step_vectors": steps}
        check_decoder(build(**universal("encoder-decoder", **options)))
    check_encoder(build("encoder", **universal("encoder", steps=2, step_vectors=steps, positions="once")))


@pytest.mark.parametrize("residual", [PreOptions(), DualOptions(), HyperOptions(streams=2)], ids=lambda o: o.use)
def test_without_marks_it_equals_a_deep_stack_with_copied_weights(residual: Any) -> None:
    """Two layers, three times, streams and all."""
    layer = {"residual": residual, "layers": [LayerOptions(), LayerOptions(attention=AdditiveOptions(heads=2))]}
    options = {"depth": 2, "steps": 3, "step_vectors": "none", "positions": "once"}
    shared = build("decoder", **universal("decoder", layer, **options))
    deep = build("decoder", layer={**layer, "depth": 6})
    copy(shared, deep, 2)
    tokens = random_tokens(4, 7)
    assert tokens.padding_mask is not None
    assert (shared(tokens) - deep(tokens))[tokens.padding_mask].abs().max() < 1e-12


def test_the_formula_of_the_paper() -> None:
    """Positions and the step's waves are added before every step."""
    model = build("encoder", **universal("encoder", steps=3))
    tokens = random_tokens(5)
    stack = model.encoder.stack
    (layer,) = stack.layers
    from kit import AttentionContext, BatchLayout

    context = AttentionContext(BatchLayout.of(tokens), BatchLayout.of(tokens))
    x = model.encoder.embedding(tokens.ids)
    angles = torch.arange(0, 32, 2, dtype=torch.float64) / 32
    for step in range(3):
        for place in range(5):
            for pair, exponent in enumerate(angles):
                x[:, place, 2 * pair] += torch.sin(place / 10_000**exponent) + torch.sin(step / 10_000**exponent)
                x[:, place, 2 * pair + 1] += torch.cos(place / 10_000**exponent) + torch.cos(step / 10_000**exponent)
        x = layer(x.detach(), context, None, None, None)
    assert (model.logits(x, context.queries, model.encoder.embedding) - model(tokens)).abs().max() < 1e-6


def test_learned_steps_and_positions_once() -> None:
    options = {"steps": 2, "step_vectors": "learned", "positions": "once"}
    model = build("decoder", **universal("decoder", **options), position=LearnedOptions())
    names = dict(model.named_parameters())
    assert names["decoder.stack.step_table"].shape == (2, 32)
    positions = names["decoder.stack.positions.position.table"]
    with torch.no_grad():
        first = model(target=random_tokens(1))
        positions[0] += 1.0
        assert not torch.equal(model(target=random_tokens(1)), first)


def test_waves_of_an_odd_width() -> None:
    slow = 10_000 ** (-4 / 5)
    assert step_sinusoids(2, 5)[1, [0, 1, 4]].tolist() == pytest.approx([math.sin(1), math.cos(1), math.sin(slow)])
    assert step_sinusoids(2, 5).shape == (2, 5)


def test_parameters_do_not_grow_with_steps() -> None:
    counts = {
        steps: sum(
            parameter.numel() for parameter in build("decoder", **universal("decoder", steps=steps)).parameters()
        )
        for steps in (1, 8)
    }
    assert counts[1] == counts[8]


def test_a_watcher_sees_every_step_as_a_layer() -> None:
    model = build("decoder", **universal("decoder", depth=2, steps=3))
    recorder = AttentionRecorder()
    model(target=random_tokens(5), observer=recorder)
    assert list(recorder.by_site) == [f"decoder.{number}.attention" for number in range(6)]
    one, other = recorder.by_site["decoder.0.attention"], recorder.by_site["decoder.2.attention"]
    assert (one - other).abs().max() > 1e-3


def test_parts_that_go_by_depth_count_every_step() -> None:
    model = build(**universal("encoder-decoder", {"residual": DeepnormOptions()}, depth=2, steps=3))
    assert model.encoder.stack.layers[0].residual.alpha == pytest.approx(0.81 * (6**4 * 6) ** (1 / 16))
    assert model.decoder.stack.layers[0].residual.alpha == pytest.approx(18**0.25)


def copy(shared: Model, deep: Model, layers: int) -> None:
    """Weights of layer n of the one to layers n, n + layers, ... of the other."""
    source = dict(shared.named_parameters())
    with torch.no_grad():
        for name, parameter in deep.named_parameters():
            steps = name.split(".")
            if "layers" in steps:
                place = steps.index("layers") + 1
                steps[place] = str(int(steps[place]) % layers)
            parameter.copy_(source[".".join(steps)])
