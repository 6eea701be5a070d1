"""What a bound recipe accepts in its slots, and how strict it is about plain values."""

from typing import Any, Literal

import pytest
from pydantic import ValidationError

from kit.plugin.component import Options
from kit.recipe.loading import load_recipe
from kit.recipe.sections import ModelSection, Recipe
from kit.recipe.slot_schema import bind

from .parts import (
    AnyOptions,
    LayerOptions,
    RmsOptions,
    Scale,
    SoftmaxOptions,
    TransformerOptions,
    part,
    plugin,
    registry,
)

REGISTRY = registry()


def model(**changes: Any) -> Any:
    data = {"name": "x", "model": {"family": "encoder", "width": 8, **changes}}
    return bind(Recipe, REGISTRY).model_validate(data).model


def test_a_registry_has_one_bound_type_and_another_registry_another() -> None:
    assert bind(Recipe, REGISTRY) is bind(Recipe, REGISTRY)
    other = registry(plugin("more", part("norm", type("NewOptions", (RmsOptions,), {}))))
    assert bind(Recipe, other) is not bind(Recipe, REGISTRY)
    assert issubclass(bind(Recipe, other), Recipe)


def test_slots_of_two_registries_are_not_mixed_up() -> None:
    class HereOptions(Options):
        use: Literal["here"] = "here"

    other = registry(plugin("more", part("norm", HereOptions)))
    data = {"name": "x", "model": {"family": "encoder", "width": 8, "norm": "here"}}
    assert bind(Recipe, other).model_validate(data).model.norm.use == "here"  # type: ignore[union-attr]
    with pytest.raises(ValidationError):
        bind(Recipe, REGISTRY).model_validate(data)


def test_a_name_is_short_for_a_mapping() -> None:
    assert model(norm="rms") == model(norm={"use": "rms"})
    assert isinstance(model(norm="rms").norm, RmsOptions)


def test_a_mapping_without_use_selects_the_default_part() -> None:
    assert isinstance(model(norm={"epsilon": 0.1}).norm, LayerOptions)
    assert isinstance(model(encoder={"depth": 2}).encoder, TransformerOptions)


def test_a_scoped_name_selects_the_part_of_one_distribution() -> None:
    theirs = type("TheirRmsOptions", (RmsOptions,), {})
    both = registry(plugin("kit-other", part("norm", theirs)))
    bound = bind(Recipe, both)
    for name, kind in [("kit-other/rms", theirs), ("kit-test/rms", RmsOptions)]:
        for spelling in (name, {"use": name, "epsilon": 0.5}):
            data = {"name": "x", "model": {"family": "encoder", "width": 8, "norm": spelling}}
            norm = bound.model_validate(data).model.norm
            assert both.part_for_options(type(norm)).component.options_type is kind  # type: ignore[arg-type]
            assert norm.use == "rms"  # type: ignore[union-attr]


def test_slots_inside_lists_mappings_tuples_and_parts_of_their_own_kind() -> None:
    nested = {"use": "any", "masks": ["causal", {"use": "any", "masks": ["causal"]}]}
    encoder = model(
        encoder={"masks": ["causal", nested], "named": {"a": "rms"}, "layers": [{"attention": {"heads": 2}}]}
    ).encoder
    assert isinstance(encoder.masks[1].masks[1], AnyOptions)
    assert isinstance(encoder.named["a"], RmsOptions)
    assert encoder.layers[0].attention.heads == 2
    assert isinstance(encoder.layers, tuple)


def test_lists_become_tuples_and_words_become_enums() -> None:
    attention = model(encoder={"attention": {"window": [1, 2], "scale": "none"}}).encoder.attention
    assert attention.window == (1, 2)
    assert attention.scale is Scale.NONE


def test_options_written_in_python_are_taken_as_they_are() -> None:
    norm = RmsOptions(epsilon=0.25)
    assert model(norm=norm).norm is norm
    attention = SoftmaxOptions(heads=2)
    recipe = Recipe(name="x", model=ModelSection(family="encoder", width=8, norm=norm))
    assert load_recipe(recipe, REGISTRY).recipe.model.norm is norm
    assert model(encoder={"attention": attention}).encoder.attention is attention


def test_options_of_another_kind_are_refused() -> None:
    with pytest.raises(ValidationError):
        model(norm=SoftmaxOptions())


@pytest.mark.parametrize(
    "changes",
    [
        {"width": "512"},
        {"width": True},
        {"width": 8.0},
        {"dropout": "0.1"},
        {"dropout": True},
        {"dropout": float("nan")},
        {"embedding_norm": 1},
        {"embedding_norm": "no"},
        {"tie": 1},
        {"norm": {"use": "rms", "epsilon": "1"}},
        {"encoder": {"attention": {"window": ["1", 2]}}},
    ],
)
def test_values_of_another_type_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model(**changes)


def test_a_number_is_no_name() -> None:
    with pytest.raises(ValidationError):
        bind(Recipe, REGISTRY).model_validate({"name": 3, "model": {"family": "encoder", "width": 8}})


def test_a_whole_number_is_fine_where_any_number_is_wanted() -> None:
    assert model(norm={"use": "rms", "epsilon": 1}).norm.epsilon == 1.0


def test_bound_classes_keep_docstrings_names_and_defaults() -> None:
    bound = bind(TransformerOptions, REGISTRY)
    assert bound.__name__ == "TransformerOptions"
    assert bound.__doc__ == "Layers of attention and feed-forward."
    assert bound.model_fields["depth"].description == "How many layers there are."
    assert bound().attention == SoftmaxOptions()
