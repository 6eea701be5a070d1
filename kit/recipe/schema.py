"""The JSON Schema of a recipe, with every installed part in it, so that an editor completes and checks recipes."""

from __future__ import annotations

import copy
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from kit.recipe.bind import bind
from kit.recipe.sections import Recipe
from kit.registry import Registry

DIALECT = GenerateJsonSchema.schema_dialect
PARTIAL = "partial-"
"""Starts the name of a definition in which nothing is required, for recipes that extend another."""


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles that only repeat the names of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema(registry: Registry) -> dict[str, Any]:
    """The schema (draft 2020-12) of the recipes that these parts allow."""
    whole = bind(Recipe, registry).model_json_schema(schema_generator=_Untitled)
    definitions = whole.pop("$defs", {})
    partial = _partial(whole)
    extends = {"type": "string", "description": "The path of a recipe that this one changes, relative to this file."}
    partial["properties"]["extends"] = extends
    return {
        "$schema": DIALECT,
        "title": "A recipe of Kitformer",
        "description": whole.get("description", ""),
        "type": "object",
        "properties": {"extends": extends},
        "if": {"required": ["extends"]},
        "then": partial,
        "else": whole,
        "$defs": definitions | {PARTIAL + name: _partial(schema) for name, schema in definitions.items()},
    }


def _partial(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema in which any key may be left to the recipe below, or be null to take away what that one says."""
    changed = copy.deepcopy(schema)
    for part in _every(changed):
        part.pop("required", None)
        if isinstance(part.get("$ref"), str):
            part["$ref"] = part["$ref"].replace("#/$defs/", f"#/$defs/{PARTIAL}")
        if isinstance(part.get("properties"), dict):
            part["properties"] = {key: _or_null(value) for key, value in part["properties"].items()}
    return changed


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The same or null, with the description where an editor looks for it."""
    described = {"description": schema["description"]} if "description" in schema else {}
    return described | {"anyOf": [schema, {"type": "null"}]}


def _every(schema: Any) -> list[dict[str, Any]]:
    """Every schema inside a schema, itself included; the names of properties are not taken for keywords."""
    found: list[dict[str, Any]] = []
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            found.append(part)
            for key, value in part.items():
                named = key in ("properties", "$defs") and isinstance(value, dict)
                waiting += list(value.values()) if named else [value]
    return found
