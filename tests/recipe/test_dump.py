"""A recipe that is written out reads back as the same recipe."""

from typing import Any

import pytest

from kit.recipe.dump import to_data, to_yaml
from kit.recipe.loading import load_recipe
from kit.recipe.sections import ModelSection, Recipe

from .parts import AnyOptions, CausalOptions, RmsOptions, SoftmaxOptions, TransformerOptions, part, plugin, registry

REGISTRY = registry()
DATA: dict[str, Any] = {
    "name": "x",
    "model": {
        "family": "encoder",
        "width": 8,
        "dropout": 1e-5,
        "vocabulary": {"source": 3, "target": 4},
        "norm": {"use": "rms", "epsilon": 2e-05},
        "embedding": "scaled",
        "encoder": {
            "use": "transformer",
            "attention": {"use": "softmax", "scale": "none", "window": [1, 2]},
            "masks": ["causal", {"use": "any", "masks": ["causal"]}],
            "layers": [{"use": "pattern", "repeat": 2}],
            "named": {"no": "rms", "2e-5": "layer"},
        },
    },
}


def test_compact_data_is_what_was_written() -> None:
    recipe = load_recipe(DATA, REGISTRY).recipe
    assert to_data(recipe, REGISTRY, compact=True) == DATA


def test_full_data_holds_every_default_with_use_first() -> None:
    model = to_data(load_recipe(DATA, REGISTRY).recipe, REGISTRY)["model"]
    assert model["length"] == 512
    assert list(model["norm"]) == ["use", "epsilon"]
    assert model["encoder"]["attention"] == {
        "use": "softmax",
        "heads": 8,
        "kv_heads": None,
        "scale": "none",
        "window": [1, 2],
    }


@pytest.mark.parametrize("compact", [True, False])
def test_yaml_reads_back_as_the_same_recipe(compact: bool) -> None:
    recipe = load_recipe(DATA, REGISTRY).recipe
    written = to_yaml(recipe, REGISTRY, compact=compact)
    again = load_recipe(written, REGISTRY).recipe
    assert again == recipe
    assert to_yaml(again, REGISTRY, compact=compact) == written


@pytest.mark.parametrize(
    "text",
    ["2e-5", "no", "null", "~", "", "12", "0x1f", ".5", ".nan", "true", " x", "a: b", "# x", "<<", "- a", "*a", "&a",
     "!a", "é\n\tü 😀", "line\n", "1" * 30, "1e999", "'", '"', "\\", "[", "{a", "%a", "@", "`", "2026-11-16", "1:30"],
)  # fmt: skip
def test_texts_stay_texts(text: str) -> None:
    recipe = load_recipe({**DATA, "description": text}, REGISTRY).recipe
    assert load_recipe(to_yaml(recipe, REGISTRY), REGISTRY).recipe.description == text


def test_names_that_two_distributions_share_are_written_with_theirs() -> None:
    theirs = type("TheirOptions", (RmsOptions,), {})
    both = registry(plugin("kit-other", part("norm", theirs)))
    data = {"name": "x", "model": {"family": "encoder", "width": 8, "norm": "kit-other/rms"}}
    recipe = load_recipe(data, both).recipe
    assert to_data(recipe, both, compact=True) == data
    assert load_recipe(to_yaml(recipe, both), both).recipe == recipe


def test_a_recipe_written_in_python_is_the_same_as_its_yaml() -> None:
    encoder = TransformerOptions(
        attention=SoftmaxOptions(heads=2), masks=[CausalOptions(), AnyOptions(masks=[CausalOptions()])]
    )
    recipe = Recipe(name="x", model=ModelSection(family="encoder", width=8, norm=RmsOptions(), encoder=encoder))
    data = to_data(recipe, REGISTRY)
    assert data == to_data(load_recipe(recipe, REGISTRY).recipe, REGISTRY)
    assert data == to_data(load_recipe(to_yaml(recipe, REGISTRY), REGISTRY).recipe, REGISTRY)
