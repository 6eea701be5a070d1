"""What a bound field accepts: the schema of a slot (any installed part of its kind) and of a nested model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from kit.component import Options
from kit.errors import KitError
from kit.registry import split_version

if TYPE_CHECKING:
    from kit.recipe.bind import Binder
    from kit.registry import Registered

CHOSEN = "\x00use "
"""Starts the step that pydantic adds to a location for the part that was chosen; no key of a recipe can start so."""
LONGEST_NAME = 200
"""Longer names are not looked for: what is near to them is costly to find, and means nothing."""
MEMBER = "\x00member "
"""Starts the step that pydantic adds to a location for a member of a union."""


@dataclass(frozen=True, eq=False)  # typing would merge annotations whose metadata are equal
class BoundModel:
    """A nested section: its bound type, or an instance of the unbound one (a recipe written in Python)."""

    model: type[BaseModel]
    binder: Binder = field(repr=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        bound = self.binder.bound(self.model)

        def unfold(value: Any) -> Any:
            if isinstance(value, self.model) and not isinstance(value, bound):
                return set_fields(value)
            if isinstance(value, str) and issubclass(bound, Options):
                return {"use": value}
            return value

        return core_schema.no_info_before_validator_function(unfold, handler.generate_schema(bound))


@dataclass(frozen=True, eq=False)  # typing would merge annotations whose metadata are equal
class BoundSlot:
    """A slot: the name of a part, a mapping that names one with `use`, or an options object."""

    kind: str
    binder: Binder = field(repr=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices: dict[Any, CoreSchema] = {
            CHOSEN + part.scoped: handler.generate_schema(self.binder.bound(part.component.options_type))
            for part in self.parts()
        }
        if not choices:
            return core_schema.no_info_plain_validator_function(self._nothing_installed)
        return core_schema.no_info_wrap_validator_function(
            self._validate,
            core_schema.tagged_union_schema(choices, self._tag),
            serialization=core_schema.simple_ser_schema("any"),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        parts = self.parts()
        if not parts:
            return {"not": {}}
        chosen: Any = schema["schema"]
        default = next((part for part in parts if part.component.default), None)
        objects: list[JsonSchemaValue] = []
        for part in parts:
            options = handler(chosen["choices"][CHOSEN + part.scoped])
            named = {**options, "required": ["use", *options.get("required", [])]}
            objects.append(options if part == default else named)
        return {"anyOf": [{"type": "string", "enum": self.every_name()}, *objects]}

    def every_name(self) -> list[str]:
        """Every spelling that selects a part, the short ones first."""
        parts = self.parts()
        short = self.binder.registry.names(self.kind) if parts else []
        return list(dict.fromkeys([*short, *(part.scoped for part in parts)]))

    def parts(self) -> list[Registered]:
        """The installed parts that may fill the slot."""
        try:
            return self.binder.registry.components(self.kind)
        except KitError:  # no plugin has ever brought a part of this kind
            return []

    def part_of(self, value: Mapping[str, Any]) -> Registered:
        """The part that a mapping selects; raises PydanticCustomError where there is none."""
        name = value.get("use")
        if name is not None and (not isinstance(name, str) or len(name) > LONGEST_NAME):
            raise PydanticCustomError("kit_unnamed", "the name of a part is a text", {"kind": self.kind})
        registry = self.binder.registry
        try:
            part = registry.default(self.kind) if name is None else registry.find(self.kind, name)
        except KitError as error:
            raise _part_problem(error) from None
        if part is None:
            raise PydanticCustomError("kit_unchosen", "no part is named", {"kind": self.kind})
        return part

    def _validate(self, value: Any, handler: core_schema.ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, Options):
            return self._instance(value)
        if isinstance(value, str):
            value = {"use": value}
        if not isinstance(value, Mapping):
            raise PydanticCustomError("kit_slot", "not a part", {"kind": self.kind})
        try:
            return handler(self._migrated(value))
        except (ValidationError, PydanticCustomError):
            raise
        except Exception as error:
            part = self.part_of(value)
            text = f"checking the options of {self.kind} '{part.scoped}' failed with {type(error).__name__}: {error}"
            raise PydanticCustomError("kit_part", "{text}", {"text": text, "exit_code": 3}) from error

    def _migrated(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Options that were written for an earlier version of their part, brought to the one that is installed."""
        name, written = split_version(value["use"]) if isinstance(value.get("use"), str) else ("", None)
        if written is None:
            return value
        part = self.part_of(value)
        installed = part.component.version
        if not 1 <= written <= installed:
            text = (
                f"the recipe wants version {written} of the {self.kind} {part.name!r}, and {part.origin} has version "
                f"{installed}\n    " + (f"a newer {part.distribution} is needed" if written else "versions begin at 1")
            )
            raise PydanticCustomError("kit_part", "{text}", {"text": text, "exit_code": 4})
        options = {key: option for key, option in value.items() if key != "use"}
        return {"use": name, **(options if written == installed else part.component.migrate(options, written))}

    def _tag(self, value: Any) -> str:
        return CHOSEN + self.part_of(value).scoped

    def _instance(self, value: Options) -> Options:
        try:
            part = self.binder.registry.of_options(type(value))
        except KitError as error:
            raise _part_problem(error) from None
        if part.kind != self.kind:
            context = {"kind": self.kind, "found": f"the {part.kind} '{part.name}'"}
            raise PydanticCustomError("kit_slot", "another kind of part", context)
        return value

    def _nothing_installed(self, value: Any) -> Any:
        """Let the registry say why, since a plugin that failed to load may be the reason."""
        if isinstance(value, str | Mapping):
            self.part_of({"use": value} if isinstance(value, str) else value)
        raise PydanticCustomError("kit_slot", "not a part", {"kind": self.kind})


def set_fields(model: BaseModel) -> dict[str, Any]:
    """What was given to a model, `use` always among it."""
    names = [name for name in type(model).model_fields if name == "use" or name in model.model_fields_set]
    return {name: getattr(model, name) for name in names}


def _part_problem(error: KitError) -> PydanticCustomError:
    return PydanticCustomError("kit_part", "{text}", {"text": str(error), "exit_code": error.exit_code})
