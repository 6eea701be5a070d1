"""Builds the part under trial, the plain parts around it, and whatever else is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kit.component import Component, Options
from kit.laws.surroundings import PLAIN
from kit.model.assembly import Assembly
from kit.recipe.bind import binder_of
from kit.registry import Registry


class Bench(Assembly):
    """An assembly that also knows a part which no plugin has brought yet."""

    def __init__(self, component: type[Component], registry: Registry) -> None:
        super().__init__(registry)
        self.component = component

    def component_of(self, options: Options) -> type[Component]:
        """The part under trial and the plain ones by their options, the others by the registry."""
        for known in (self.component, *PLAIN):
            if isinstance(options, known.options_type):
                return known
        return super().component_of(options)

    def plain(self, kind: str) -> Options | None:
        """A plain part to fill a slot with; the registry's default where the laws bring none; else None."""
        for known in PLAIN:
            if known.kind == kind:
                return known.options_type.model_validate({"use": known.part_name()})
        default = self.registry.default(kind) if kind in self.registry.kinds() else None
        return None if default is None else default.component.options_type.model_validate({"use": default.name})

    def read(self, written: Mapping[str, Any]) -> Options:
        """Options of the part under trial as a recipe would write them."""
        bound = binder_of(self.registry).bound(self.component.options_type)
        return bound.model_validate({"use": self.component.part_name(), **written})
