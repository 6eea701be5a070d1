"""Options of a part can be migrated: a recipe says for which version it was written, `use: name@1`."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Literal

import pytest
from pydantic import PositiveFloat

from kit import Kit, Norm, Options, RecipeError, hookimpl
from kit.recipe.dump import to_data
from kit.recipe.json_schema import json_schema

RECIPE: dict[str, Any] = {
    "name": "versions",
    "model": {
        "family": "encoder",
        "width": 8,
        "vocabulary": 11,
        "norm": "soft",
        "encoder": {"depth": 1, "attention": "softmax", "feedforward": "relu", "residual": "pre"},
    },
}


class SoftOptions(Options):
    """The second version: `softness` was called `amount`, and counted the other way."""

    use: Literal["soft"] = "soft"
    softness: PositiveFloat = 1.0


class SoftNorm(Norm):
    """Divides by more than its size."""

    options_type = SoftOptions
    version = 2

    @classmethod
    def migrate(cls, options: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        changed = dict(options)
        if version == 1 and "amount" in changed:
            changed["softness"] = 1 / changed.pop("amount")
        return changed

    def forward(self, x: Any) -> Any:
        return x / (x.norm(dim=-1, keepdim=True) + self.options.softness)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def kit() -> Kit:
    module = ModuleType("kit_soft")
    module.kit_api = 1  # type: ignore[attr-defined]
    module.kit_components = hookimpl(lambda: [SoftNorm])  # type: ignore[attr-defined]
    return Kit(plugins=[module])


def recipe(kit: Kit, norm: Any, overrides: tuple[str, ...] = ()) -> Any:
    return kit.recipe({**RECIPE, "model": {**RECIPE["model"], "norm": norm}}, overrides)


def test_options_of_an_earlier_version_are_migrated(kit: Kit) -> None:
    found = recipe(kit, {"use": "soft@1", "amount": 4.0})
    assert (found.model.norm.use, found.model.norm.softness) == ("soft", 0.25)
    assert recipe(kit, {"use": "kit_soft/soft@1", "amount": 4.0}).model.norm.softness == 0.25
    assert recipe(kit, "soft@1").model.norm.softness == 1.0
    assert recipe(kit, {"use": "soft@1"}, ("model.norm.amount=2.0",)).model.norm.softness == 0.5


def test_a_recipe_without_a_version_means_the_installed_one(kit: Kit) -> None:
    assert recipe(kit, {"use": "soft", "softness": 3.0}) == recipe(kit, {"use": "soft@2", "softness": 3.0})
    with pytest.raises(RecipeError, match="amount"):
        recipe(kit, {"use": "soft", "amount": 3.0})
    with pytest.raises(RecipeError, match="amount"):
        recipe(kit, {"use": "soft@2", "amount": 3.0})


def test_a_version_that_is_not_there_yet_names_what_is_needed(kit: Kit) -> None:
    with pytest.raises(RecipeError, match=r"wants version 3 of the norm 'soft', and .* has version 2") as caught:
        recipe(kit, "soft@3")
    assert "a newer kit_soft is needed" in str(caught.value)
    with pytest.raises(RecipeError, match="versions begin at 1"):
        recipe(kit, "soft@0")


def test_a_version_is_written_where_it_is_not_the_first(kit: Kit) -> None:
    data = to_data(recipe(kit, {"use": "soft@1", "amount": 4.0}), kit.registry, compact=True)
    assert data["model"]["norm"] == {"use": "soft@2", "softness": 0.25}
    assert data["model"]["encoder"]["attention"] == "softmax"
    assert kit.recipe(data).model.norm.softness == 0.25  # type: ignore[union-attr]


def test_a_migration_that_fails_is_named(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(options: Any, version: int) -> Any:
        raise KeyError("amount")

    monkeypatch.setattr(SoftNorm, "migrate", fails)
    with pytest.raises(RecipeError, match="norm 'kit_soft/soft' failed with KeyError"):
        recipe(kit, "soft@1")


def test_editors_know_the_version(kit: Kit) -> None:
    assert "soft@2" in str(json_schema(kit.registry))


@pytest.mark.parametrize("version", [0, "2", True, None])
def test_a_version_is_a_whole_number(version: Any) -> None:
    odd = type("OddNorm", (SoftNorm,), {"version": version})
    module = ModuleType("kit_odd")
    module.kit_api = 1  # type: ignore[attr-defined]
    module.kit_components = hookimpl(lambda: [odd])  # type: ignore[attr-defined]
    (plugin,) = Kit(plugins=[module], entry_points=[]).plugins
    assert plugin.error == f"OddNorm.version is {version!r}; wanted a whole number, 1 or more"
