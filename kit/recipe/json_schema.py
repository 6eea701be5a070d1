"""The JSON Schema of recipes with all installed components, for completion and validation in editors."""

from __future__ import annotations

import copy
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from kit.plugin.registry import Registry
from kit.recipe.sections import Recipe
from kit.recipe.slot_schema import bind

DIALECT = GenerateJsonSchema.schema_dialect
PARTIAL = "partial-"
"""The prefix of definitions without required keys, for recipes that extend another."""


class _WithoutFieldTitles(GenerateJsonSchema):
    """Omits titles that only repeat field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema(registry: Registry) -> dict[str, Any]:
    """The schema (draft 2020-12) of the recipes that the registry's components allow."""
    whole = bind(Recipe, registry).model_json_schema(schema_generator=_WithoutFieldTitles)
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
    """A schema without required keys, in which any key may be null to remove it from the extended recipe."""
    changed = copy.deepcopy(schema)
    for part in _every(changed):
        part.pop("required", None)
        if isinstance(part.get("$ref"), str):
            part["$ref"] = part["$ref"].replace("#/$defs/", f"#/$defs/{PARTIAL}")
        if isinstance(part.get("properties"), dict):
            part["properties"] = {key: _or_null(value) for key, value in part["properties"].items()}
    return changed


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema or null, with the description at the top level, where editors look for it."""
    described = {"description": schema["description"]} if "description" in schema else {}
    return described | {"anyOf": [schema, {"type": "null"}]}


def _every(schema: Any) -> list[dict[str, Any]]:
    """All subschemas of a schema, itself included; property names are not treated as keywords."""
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
