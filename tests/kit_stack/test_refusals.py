"""What a recipe is told when the parts of a Transformer stack do not suit each other: both sides, and what to write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from models.tiny_models import KIT, section
from pydantic import ValidationError

from kit import Capabilities, Kit, Mask, Options, Position, RecipeError, hookimpl
from kit.model.builder import ModelBuilder
from kit_attention.additive import AdditiveOptions
from kit_attention.softmax import SoftmaxAttention, SoftmaxOptions
from kit_position.learned import LearnedOptions
from kit_position.none import NoneOptions
from kit_residual.dual import DualOptions
from kit_residual.hyper import HyperOptions
from kit_residual.pre import PreOptions
from kit_residual.rezero import RezeroOptions
from kit_stack.options import LayerOptions
from kit_stack.universal import UniversalOptions


def refusals(family: str = "decoder", kit: Kit = KIT, **changes: Any) -> list[str]:
    builder = ModelBuilder(kit.registry)
    problems = [str(problem) for problem in builder.check(section(family, **changes))]
    with pytest.raises(RecipeError):
        builder.model(section(family, **changes))
    return problems


@pytest.fixture
def capabilities(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Takes abilities away from softmax attention."""
    plain = SoftmaxAttention.capabilities

    def take(**changes: Any) -> Capabilities:
        monkeypatch.setattr(SoftmaxAttention, "capabilities", replace(plain, **changes))
        return SoftmaxAttention.capabilities

    return take


class TurningOptions(Options):
    """Turns."""

    use: Literal["turning"] = "turning"


class TurningPosition(Position):
    options_type = TurningOptions

    def rotate(self, x_BHLE: Any, at_BL: Any, side: Any) -> Any:
        return x_BHLE


class FarOptions(Options):
    """Far."""

    use: Literal["far"] = "far"


class FarMask(Mask):
    options_type = FarOptions

    def allows(self, q: Any, k: Any, features: Any) -> Any:
        return (q - k).abs() > 2


class Sample:
    kit_api = 1

    @hookimpl
    def kit_components(self) -> list[type]:
        return [TurningPosition, FarMask]


WITH_SAMPLE = Kit(plugins=[Sample()])


def test_heads_that_do_not_divide_the_width() -> None:
    (text,) = refusals(layer={"attention": SoftmaxOptions(heads=5)})
    assert text == (
        "recipe: model.decoder.attention.heads: 5 heads do not divide the width 32\n"
        "    take 4 or 2 heads, or name a head_dim"
    )


def test_a_depth_that_is_no_multiple_of_the_pattern() -> None:
    assert refusals(layer={"depth": 4, "layers": [LayerOptions(repeat=2), LayerOptions()]}) == [
        "recipe: model.decoder.layers: the pattern has 3 layers, and the depth 4 is no multiple of that\n"
        "    write depth: 6, or change what repeats"
    ]


def test_no_norm() -> None:
    assert refusals(norm=None) == [
        "recipe: model.decoder: no norm is named here or for the model\n    write norm: ... here or under model"
    ]
    assert refusals(norm=None, layer={"residual": RezeroOptions(), "final_norm": True}) == [
        "recipe: model.decoder: no norm is named here or for the model\n    write norm: ... here or under model"
    ]


def test_no_cross_attention() -> None:
    assert refusals("encoder-decoder", layer={"cross_attention": None}) == [
        "recipe: model.decoder: the decoder needs a cross_attention, because it reads a memory\n"
        "    add cross_attention: ..."
    ]


def test_nothing_to_cross_to() -> None:
    assert refusals(layer={"cross_attention": SoftmaxOptions(heads=4)}) == [
        "recipe: model.decoder.cross_attention: the decoder has no memory to attend to\n    leave cross_attention out"
    ]


def test_a_decoder_that_sees_the_future() -> None:
    assert refusals(layer={"masks": ()}) == [
        "recipe: model.decoder.masks: the decoder writes from left to right, and its masks (none) do not hide the "
        "future\n    add a mask that does, such as masks: [causal]"
    ]


def test_a_position_that_attention_makes_no_use_of() -> None:
    layer = {"attention": AdditiveOptions(heads=4)}
    assert refusals(kit=WITH_SAMPLE, layer=layer, position=TurningOptions()) == [
        "recipe: model.decoder.attention: additive attention makes no use of a position that turns queries and keys, "
        "and the position turning does\n    choose another attention or another position"
    ]


def test_a_mask_that_attention_does_not_honour(capabilities: Any) -> None:
    capabilities(masks=frozenset({"causal"}))
    assert refusals("encoder", kit=WITH_SAMPLE, encoder=section("decoder", {"masks": (FarOptions(),)}).decoder) == [
        "recipe: model.encoder.attention: softmax attention honours only causal masks, and the mask far asks for more"
        "\n    choose another attention, or leave the mask out"
    ]
    capabilities(masks=frozenset())
    assert refusals() == [
        "recipe: model.decoder.attention: softmax attention honours no mask but padding, and the mask causal asks for "
        "more\n    choose another attention, or leave the mask out"
    ]


def test_attention_that_does_not_go_step_by_step(capabilities: Any) -> None:
    capabilities(incremental=False)
    why = "softmax attention cannot go on token by token, and the decoder writes that way\n    choose another attention"
    assert refusals() == [f"recipe: model.decoder.attention: {why}"]
    layer = {"attention": AdditiveOptions(heads=4), "cross_attention": SoftmaxOptions(heads=4)}
    assert refusals("encoder-decoder", layer=layer) == [f"recipe: model.decoder.cross_attention: {why}"]


def test_attention_to_a_memory_only_and_to_none(capabilities: Any) -> None:
    capabilities(reads_self=False)
    assert refusals() == [
        "recipe: model.decoder.attention: softmax attention can only attend to a memory\n    choose another attention"
    ]
    capabilities(reads_memory=False)
    assert refusals("encoder-decoder") == [
        "recipe: model.decoder.cross_attention: softmax attention cannot attend to a memory, and the decoder has one"
        "\n    choose another attention"
    ]


def test_streams_that_do_not_go_all_the_way() -> None:
    layers = [LayerOptions(), LayerOptions(residual=PreOptions())]
    assert refusals(layer={"residual": DualOptions(), "layers": layers}) == [
        "recipe: model.decoder.layers[1].residual: the residual dual keeps several streams from the first layer to the "
        "last, and some layers have the residual pre\n    give all layers of the stack the same residual"
    ]
    layers = [LayerOptions(residual=HyperOptions(streams=2)), LayerOptions()]
    (text,) = refusals(layer={"residual": HyperOptions(streams=4), "layers": layers})
    assert "and some layers have other options" in text


def test_a_position_that_comes_too_late() -> None:
    layers = [LayerOptions(position=NoneOptions()), LayerOptions(position=LearnedOptions())]
    assert refusals(layer={"layers": layers}) == [
        "recipe: model.decoder.layers[1].position: the position learned goes into token vectors before the first "
        "layer, and only layer 1 names it\n"
        "    name it for the whole stack, or choose a position that works within attention"
    ]


def test_marks_are_for_plain_vectors() -> None:
    plain = section("decoder", {"residual": DualOptions()}).decoder
    assert plain is not None
    options = {name: getattr(plain, name) for name in plain.model_fields_set - {"use", "depth"}}
    assert refusals(decoder=UniversalOptions(**options)) == [
        "recipe: model.decoder.residual: a universal stack marks vectors before every step, and the residual dual "
        "turns them into several streams\n    choose another residual, or write step_vectors: none and positions: once"
    ]


@pytest.mark.parametrize(
    "changes", [{"depth": 0}, {"drop_layers": 1.0}, {"drop_layers": -0.1}, {"layers": []}, {"deptth": 3}], ids=str
)
def test_values_out_of_range(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        section("decoder", changes)
