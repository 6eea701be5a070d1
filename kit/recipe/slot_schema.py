"""Binds recipe sections to a registry: pydantic schemas whose slots accept the installed components of their kind."""

from __future__ import annotations

import copy
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    Tag,
    ValidationError,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from kit.errors import KitError
from kit.plugin.component import Options, Slot
from kit.plugin.registry import Registry, split_version

if TYPE_CHECKING:
    from kit.plugin.registry import Registered


PART_STEP = "\x00use "
"""The prefix of the location step that pydantic adds for the selected component; no recipe key can start with it."""
MAX_NAME_CHARACTERS = 200
"""The longest name that is looked up; similar names of longer ones are costly to find and meaningless."""
UNION_STEP = "\x00member "
"""The prefix of the location step that pydantic adds for a member of a union."""


@dataclass(frozen=True, eq=False)  # typing would merge annotations whose metadata are equal
class BoundModel:
    """Schema of a nested section: its bound type, or an instance of the unbound type (a recipe written in Python)."""

    model: type[BaseModel]
    binder: Binder = field(repr=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        bound = self.binder.bound(self.model)

        def unfold(value: Any) -> Any:
            if isinstance(value, self.model) and not isinstance(value, bound):
                return explicit_fields(value)
            if isinstance(value, str) and issubclass(bound, Options):
                return {"use": value}
            return value

        return core_schema.no_info_before_validator_function(unfold, handler.generate_schema(bound))


@dataclass(frozen=True, eq=False)  # typing would merge annotations whose metadata are equal
class BoundSlot:
    """Schema of a slot: the name of a component, a mapping with `use`, or an options object."""

    kind: str
    binder: Binder = field(repr=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices: dict[Any, CoreSchema] = {
            PART_STEP + part.scoped: handler.generate_schema(self.binder.bound(part.component.options_type))
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
            options = handler(chosen["choices"][PART_STEP + part.scoped])
            named = {**options, "required": ["use", *options.get("required", [])]}
            objects.append(options if part == default else named)
        return {"anyOf": [{"type": "string", "enum": self.every_name()}, *objects]}

    def every_name(self) -> list[str]:
        """Every spelling that selects a component, the short ones first."""
        parts = self.parts()
        short = self.binder.registry.names(self.kind) if parts else []
        return list(dict.fromkeys([*short, *(part.scoped for part in parts)]))

    def parts(self) -> list[Registered]:
        """The installed components of the slot's kind."""
        try:
            return self.binder.registry.components(self.kind)
        except KitError:  # an unknown kind
            return []

    def part_of(self, value: Mapping[str, Any]) -> Registered:
        """The component that a mapping selects; raises PydanticCustomError if there is none."""
        name = value.get("use")
        if name is not None and (not isinstance(name, str) or len(name) > MAX_NAME_CHARACTERS):
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
        """Migrates options of an earlier version to the installed version of the component."""
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
        return PART_STEP + self.part_of(value).scoped

    def _instance(self, value: Options) -> Options:
        try:
            part = self.binder.registry.part_for_options(type(value))
        except KitError as error:
            raise _part_problem(error) from None
        if part.kind != self.kind:
            context = {"kind": self.kind, "found": f"the {part.kind} '{part.name}'"}
            raise PydanticCustomError("kit_slot", "another kind of part", context)
        return value

    def _nothing_installed(self, value: Any) -> Any:
        """Raises the registry's reason, such as a plugin that failed to load."""
        if isinstance(value, str | Mapping):
            self.part_of({"use": value} if isinstance(value, str) else value)
        raise PydanticCustomError("kit_slot", "not a part", {"kind": self.kind})


def explicit_fields(model: BaseModel) -> dict[str, Any]:
    """The fields that were set explicitly, always including `use`."""
    names = [name for name in type(model).model_fields if name == "use" or name in model.model_fields_set]
    return {name: getattr(model, name) for name in names}


def _part_problem(error: KitError) -> PydanticCustomError:
    return PydanticCustomError("kit_part", "{text}", {"text": str(error), "exit_code": error.exit_code})


Model = TypeVar("Model", bound=BaseModel)

_STRICT_TYPES = (int, float, str, bool)
_BINDER_ATTRIBUTE = "_recipe_binder"


def bind(section_type: type[Model], registry: Registry) -> type[Model]:
    """A subclass of a section whose slots accept the components of a registry; cached."""
    return binder_of(registry).bound(section_type)


def binder_of(registry: Registry) -> Binder:
    """The binder of a registry; one each."""
    # stored on the registry: a module-level table would keep every registry alive, since binders refer to theirs
    if _BINDER_ATTRIBUTE not in vars(registry):
        setattr(registry, _BINDER_ATTRIBUTE, Binder(registry))
    binder: Binder = vars(registry)[_BINDER_ATTRIBUTE]
    return binder


class Binder:
    """Binds pydantic models to one registry and caches the result."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._bound: dict[type[BaseModel], type[BaseModel]] = {}

    def bound(self, model: type[Model]) -> type[Model]:
        """The bound subclass of a section or options type."""
        if model not in self._bound:
            made = self._make(model)
            self._bound[model] = made
            self._bound[made] = made
        return self._bound[model]  # type: ignore[return-value]

    def _make(self, model: type[BaseModel]) -> type[BaseModel]:
        model.model_rebuild()
        namespace: dict[str, Any] = {
            "__module__": model.__module__,
            "__qualname__": model.__qualname__,
            "__doc__": model.__doc__,
            "__annotations__": {},
            # the docstrings of fields were read when the plugin's own class was made
            "model_config": ConfigDict(defer_build=True, use_attribute_docstrings=False),
        }
        for name, info in model.model_fields.items():
            namespace["__annotations__"][name], namespace[name] = self._field(model, name, info)
        return types.new_class(model.__name__, (model,), exec_body=lambda body: body.update(namespace))

    def _field(self, model: type[BaseModel], name: str, field: FieldInfo) -> tuple[Any, FieldInfo]:
        info = copy.copy(field)
        annotation = field.annotation
        if name == "use" and issubclass(model, Options) and get_origin(annotation) is Literal:
            # a scoped name has chosen the part; the part's own options hold the plain name
            yaml_spelling = WithJsonSchema({"type": "string", "enum": self._names(model, get_args(annotation)[0])})
            return Annotated[annotation, BeforeValidator(_unscoped), yaml_spelling], info
        slot = next((item for item in field.metadata if isinstance(item, Slot)), None)
        info.metadata = [item for item in field.metadata if not isinstance(item, Slot)]
        changed = self._slot(slot) if slot is not None else self.rewritten(annotation)
        if slot is not None or _holds_slot(annotation):
            info.validate_default = True
        info.annotation = changed
        return changed, info

    def _names(self, options_type: type[Options], plain: str) -> list[str]:
        """Every name that selects the part with these options; its own where it is no part."""
        try:
            part = self.registry.part_for_options(options_type)
        except KitError:
            return [plain]
        names = [part.name, part.scoped] if part.name in self.registry.names(part.kind) else [part.scoped]
        version = part.component.version
        return names + [f"{name}@{version}" for name in names if version > 1]

    def rewritten(self, annotation: Any) -> Any:
        """An annotation with slots and models bound, union members labelled, and plain values strict."""
        if annotation in _STRICT_TYPES:
            return Annotated[annotation, Strict()]
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and get_origin(annotation) is None:
            return Annotated[annotation, BoundModel(annotation, self)]
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is None or origin is Literal:
            return annotation
        if origin is Annotated:
            return self._annotated(arguments[0], arguments[1:])
        if origin is Union or origin is types.UnionType:
            return self._union(arguments)
        if isinstance(origin, type):
            return types.GenericAlias(origin, tuple(self._argument(argument) for argument in arguments))
        return annotation

    def _argument(self, argument: Any) -> Any:
        return argument if argument is Ellipsis else self.rewritten(argument)

    def _annotated(self, inner: Any, metadata: tuple[Any, ...]) -> Any:
        slot = next((item for item in metadata if isinstance(item, Slot)), None)
        rest = tuple(item for item in metadata if not isinstance(item, Slot))
        base = self._slot(slot) if slot is not None else self.rewritten(inner)
        return Annotated[(base, *rest)] if rest else base

    def _union(self, union_members: tuple[Any, ...]) -> Any:
        real = [member for member in union_members if member is not type(None)]
        changed = [self.rewritten(member) for member in real]
        if len(real) > 1:
            changed = [Annotated[member, Tag(f"{UNION_STEP}{index}")] for index, member in enumerate(changed)]
        joined = reduce(or_, changed) if len(changed) > 1 else changed[0]
        return joined | None if len(real) < len(union_members) else joined

    def _slot(self, slot: Slot) -> Any:
        return Annotated[Options, BoundSlot(slot.kind, self)]


def _unscoped(name: Any) -> Any:
    return split_version(name.rpartition("/")[2])[0] if isinstance(name, str) else name


def _holds_slot(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated and any(isinstance(item, Slot) for item in get_args(annotation)[1:]):
        return True
    return any(_holds_slot(argument) for argument in get_args(annotation))
