"""Serializes a recipe to plain data or YAML that loads to the same recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from kit.errors import PartNotFound
from kit.plugin.component import Options
from kit.plugin.registry import Registry
from kit.recipe.sections import Recipe
from kit.recipe.yaml_reader import ScalarError, resolve


def to_data(recipe: Recipe, registry: Registry, *, compact: bool = False) -> dict[str, Any]:
    """The recipe as dicts, lists and plain values, `use` first in each component.

    compact: leave out default values, and write a component without other options as its name alone.
    """
    return _Writer(registry, compact).model(recipe)


def to_yaml(recipe: Recipe, registry: Registry, *, compact: bool = False) -> str:
    """The recipe as YAML."""
    data = to_data(recipe, registry, compact=compact)
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


class _Writer:
    """Converts pydantic models to plain data, with the names of one registry."""

    def __init__(self, registry: Registry, compact: bool) -> None:
        self.registry = registry
        self.compact = compact

    def model(self, model: BaseModel) -> dict[str, Any]:
        """A section or options as a mapping."""
        data: dict[str, Any] = {"use": self._name(model)} if isinstance(model, Options) else {}
        for name, field in type(model).model_fields.items():
            if name != "use" or not isinstance(model, Options):
                value = self.value(getattr(model, name))
                if not self.compact or not self._as_default(field, value):
                    data[field.alias or name] = value
        return data

    def value(self, value: Any) -> Any:
        """The value of a field as plain data."""
        if isinstance(value, BaseModel):
            data = self.model(value)
            return data["use"] if self.compact and data.keys() == {"use"} else data
        if isinstance(value, Mapping):
            return {str(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return to_jsonable_python(value)

    def _as_default(self, field: FieldInfo, value: Any) -> bool:
        return not field.is_required() and value == self.value(field.get_default(call_default_factory=True))

    def _name(self, options: Options) -> str:
        """The shortest name that selects the component; for options of no registered component, their `use`."""
        try:
            part = self.registry.part_for_options(type(options))
        except PartNotFound:
            return options.use
        name = part.name if part.name in self.registry.names(part.kind) else part.scoped
        return f"{name}@{part.component.version}" if part.component.version > 1 else name


class _Dumper(yaml.SafeDumper):
    """Quotes strings that the recipe reader would resolve to another type, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """A string node, quoted if needed."""
        try:
            plain = resolve(text) == text
        except ScalarError:
            plain = False
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _Dumper.represent_text)
