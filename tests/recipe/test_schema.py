"""The JSON Schema accepts what loads and refuses what does not, as far as a schema can tell."""

from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator

from kit.errors import RecipeError
from kit.plugin.component import Options
from kit.recipe.json_schema import json_schema
from kit.recipe.loading import load_recipe

from .parts import part, plugin, registry


class ForeignOptions(Options):
    """A norm from somewhere else."""

    use: Literal["foreign"] = "foreign"
    strength: float = 1.0
    """How much of it."""


REGISTRY = registry(plugin("kit-foreign", part("norm", ForeignOptions)))
SCHEMA = json_schema(REGISTRY)
VALIDATOR = Draft202012Validator(SCHEMA)


def recipe(**model: Any) -> dict[str, Any]:
    return {"name": "x", "model": {"family": "encoder", "width": 8, **model}}


GOOD = [
    recipe(),
    recipe(norm="rms"),
    recipe(norm="foreign"),
    recipe(norm="kit-foreign/foreign"),
    recipe(norm={"use": "foreign", "strength": 2}),
    recipe(norm={"use": "kit-foreign/foreign", "strength": 2.5}),
    recipe(norm={"epsilon": 0.1, "bias": False}),
    recipe(norm=None, vocabulary=3),
    recipe(vocabulary={"source": 1, "target": 2}),
    recipe(encoder={"masks": ["causal", {"use": "any", "masks": [{"use": "any", "masks": ["causal"]}]}]}),
    recipe(encoder={"attention": {"use": "additive", "hidden": 3}, "layers": [{"repeat": 2, "attention": "softmax"}]}),
    recipe(encoder={"use": "lstm"}),
]
BAD = [
    {},
    {"name": "x"},
    recipe(width="8"),
    recipe(width=0),
    recipe(widht=8),
    recipe(norm="lyer"),
    recipe(norm=3),
    recipe(norm={"use": "lyer"}),
    recipe(norm={"use": "rms", "bias": True}),
    recipe(norm={"strength": 2.0}),
    recipe(vocabulary={"source": 1}),
    recipe(encoder={"masks": "causal"}),
    recipe(encoder={"masks": [{}]}),
    recipe(encoder={"attention": "no-such"}),
    recipe(encoder={"attention": {"use": "additive"}}),
    recipe(encoder={"layers": [{"repeat": 0}]}),
    recipe(head="anything"),
]


def test_it_is_a_schema_of_the_draft_it_names() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("data", GOOD, ids=str)
def test_good_recipes_pass_both(data: dict[str, Any]) -> None:
    assert load_recipe(data, REGISTRY)
    assert VALIDATOR.is_valid(data)


@pytest.mark.parametrize("data", BAD, ids=str)
def test_bad_recipes_fail_both(data: dict[str, Any]) -> None:
    with pytest.raises(RecipeError):
        load_recipe(data, REGISTRY)
    assert not VALIDATOR.is_valid(data)


def test_a_recipe_that_extends_another_may_leave_things_out() -> None:
    assert VALIDATOR.is_valid({"extends": "base.yaml"})
    assert VALIDATOR.is_valid({"extends": "base.yaml", "model": {"width": 8, "norm": {"strength": 3}}})
    assert VALIDATOR.is_valid(
        {"extends": "base.yaml", "model": {"width": None, "encoder": {"attention": {"hidden": 1}}}}
    )
    assert not VALIDATOR.is_valid({"extends": ["base.yaml"]})
    assert not VALIDATOR.is_valid({"extends": "base.yaml", "modle": {}})
    assert not VALIDATOR.is_valid({"extends": "base.yaml", "model": {"width": "8"}})


def test_descriptions_come_from_docstrings() -> None:
    foreign = SCHEMA["$defs"]["ForeignOptions"]
    assert foreign["description"] == "A norm from somewhere else."
    assert foreign["properties"]["strength"]["description"] == "How much of it."
    assert (
        SCHEMA["$defs"]["ModelSection"]["properties"]["width"]["description"]
        == "The model width (hidden size, d_model)."
    )
