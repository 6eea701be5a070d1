"""Writes a recipe back as plain data or YAML that reads to the same recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from kit.component import Options
from kit.errors import PartNotFound
from kit.recipe.scalars import ScalarError, resolve
from kit.recipe.sections import Recipe
from kit.registry import Registry


def to_data(recipe: Recipe, registry: Registry, *, compact: bool = False) -> dict[str, Any]:
    """The recipe as dicts, lists and plain values, `use` first in each part.

    compact: leave out what is as it would be anyway, and write a part without other options as its name alone.
    """
    return _Writer(registry, compact).model(recipe)


def to_yaml(recipe: Recipe, registry: Registry, *, compact: bool = False) -> str:
    """The recipe as YAML."""
    data = to_data(recipe, registry, compact=compact)
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


class _Writer:
    """Turns models into data, with the names of one registry."""

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
        """Whatever a field holds."""
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
        """The shortest name that selects the part; for options that are no part's own, what they say themselves."""
        try:
            part = self.registry.of_options(type(options))
        except PartNotFound:
            return options.use
        name = part.name if part.name in self.registry.names(part.kind) else part.scoped
        return f"{name}@{part.component.version}" if part.component.version > 1 else name


class _Dumper(yaml.SafeDumper):
    """Puts a text in quotes wherever the reader of recipes would take it for something else; repeats values in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """A text, quoted where it has to be."""
        try:
            plain = resolve(text) == text
        except ScalarError:
            plain = False
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _Dumper.represent_text)
