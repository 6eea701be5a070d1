"""The exporter that a person names, with options as they are typed: `quantization=int8`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from kit.component import Options
from kit.contracts.exporter import Exporter
from kit.errors import RecipeError
from kit.recipe.bind import bind
from kit.recipe.explain import explain
from kit.recipe.nodes import MappingNode, Place, from_plain, to_plain
from kit.recipe.overrides import apply_overrides
from kit.registry import Registry

KIND = Exporter.kind


def exporter_named(name: str, registry: Registry, overrides: Iterable[str] = ()) -> Exporter:
    """The exporter called so, with its options changed; raises RecipeError with every option that is wrong."""
    found = registry.find(KIND, name)
    bound = bind(found.component.options_type, registry)
    root = from_plain({"use": found.name}, Place(f"--to {name}"))
    assert isinstance(root, MappingNode)
    data = to_plain(apply_overrides(root, overrides, bound))
    try:
        return exporter_of(bound.model_validate(data), registry)
    except ValidationError as error:
        raise RecipeError(list(explain(error.errors(include_url=False), bound, data))) from None


def exporter_of(options: Options, registry: Registry) -> Exporter:
    """The exporter that these options belong to."""
    component: Any = registry.of_options(type(options)).component
    exporter: Exporter = component(options)
    return exporter
