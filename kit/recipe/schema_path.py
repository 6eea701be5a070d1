"""Resolves a path in the bound recipe schema to the type of the field there, and describes the values it accepts.

A `FieldType` is the annotation of a bound field, or the bound model itself; None where it is unknown.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from kit.recipe.slot_schema import PART_STEP, UNION_STEP, BoundModel, BoundSlot
from kit.recipe.yaml_reader import yaml_spelling

FieldType = Any


def strip_annotated(field_type: FieldType) -> tuple[Any, list[Any]]:
    """An annotation without `Annotated`, and its metadata."""
    metadata: list[Any] = []
    origin: Any = get_origin(field_type)
    while origin is Annotated:
        field_type, *more = get_args(field_type)
        metadata = [*more, *metadata]
        origin = get_origin(field_type)
    return field_type, metadata


def union_members(field_type: FieldType) -> list[FieldType]:
    """The members of a union without None; any other annotation is its only member."""
    base, _ = strip_annotated(field_type)
    if get_origin(base) in (Union, types.UnionType):
        return [member for member in get_args(base) if member is not type(None)]
    return [field_type]


def slot_or_model(field_type: FieldType, keys: Iterable[str] = ()) -> BoundSlot | type[BaseModel] | None:
    """The member of a field type, a slot or a model, that a mapping with these keys is meant for."""
    given = set(keys)
    slot: BoundSlot | None = None
    best: type[BaseModel] | None = None
    for member in union_members(field_type):
        base, metadata = strip_annotated(member)
        for item in metadata:
            if isinstance(item, BoundSlot):
                slot = item
            if isinstance(item, BoundModel):
                base = item.binder.bound(item.model)
        if isinstance(base, type) and issubclass(base, BaseModel):
            fields = given & set(base.model_fields)
            if best is None or len(fields) > len(given & set(best.model_fields)):
                best = base
    if slot is None or (best is not None and "use" not in given and given & set(best.model_fields)):
        return best
    return slot


def type_of_field(field: FieldInfo) -> FieldType:
    """The type of a field with its metadata."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def model_at(field_type: FieldType, value: Mapping[str, Any]) -> type[BaseModel] | None:
    """The bound model that validates a mapping of this field type; for a slot, the selected component's options."""
    found = slot_or_model(field_type, value)
    if not isinstance(found, BoundSlot):
        return found
    try:
        return found.binder.bound(found.part_of(value).component.options_type)
    except PydanticCustomError:
        return None


def descend(field_type: FieldType, step: str | int) -> FieldType:
    """The field type one step further along a pydantic error location."""
    if isinstance(step, str) and step.startswith(UNION_STEP):
        return _labelled(field_type, int(step.removeprefix(UNION_STEP)))
    if isinstance(step, str) and step.startswith(PART_STEP):
        slot = slot_or_model(field_type)
        return _chosen(slot, step.removeprefix(PART_STEP)) if isinstance(slot, BoundSlot) else None
    for member in union_members(field_type):
        found = slot_or_model(member)
        if isinstance(found, type) and step in found.model_fields:
            return type_of_field(found.model_fields[str(step)])
        base, _ = strip_annotated(member)
        arguments = get_args(base)
        if get_origin(base) is dict and isinstance(step, str) and len(arguments) == 2:
            return arguments[1]
        if get_origin(base) is not dict and isinstance(step, int) and arguments:
            return _item(arguments, step)
    return None


def _item(arguments: tuple[Any, ...], index: int) -> FieldType:
    if len(arguments) == 1 or arguments[-1] is Ellipsis:
        return arguments[0]
    return arguments[index] if index < len(arguments) else None


def _labelled(field_type: FieldType, index: int) -> FieldType:
    found = union_members(field_type)
    return found[index] if index < len(found) else None


def _chosen(slot: BoundSlot, scoped: str) -> FieldType:
    for part in slot.parts():
        if part.scoped == scoped:
            return slot.binder.bound(part.component.options_type)
    return None


_LIMITS = {
    "gt": "above {}",
    "ge": "of at least {}",
    "lt": "below {}",
    "le": "at most {}",
    "multiple_of": "divisible by {}",
}
_CONSTRAINTS = (*_LIMITS, "min_length", "max_length", "pattern")
_PLAIN: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    Path: "a path",
    dict: "a mapping",
    type(None): "null",
}
MAX_NAMES_LISTED = 16
"""The largest number of names that a message lists in full."""


def expected(field_type: FieldType) -> str | None:
    """The accepted values of a field type in words; None if there is no short description."""
    if isinstance(field_type, type) and issubclass(field_type, BaseModel):
        return _keys(field_type)
    choices = [_one(member) for member in union_members(field_type)]
    known = [choice for choice in choices if choice is not None]
    return ", or ".join(dict.fromkeys(known)) if len(known) == len(choices) else None


def allowed_values(field_type: FieldType) -> list[str]:
    """The accepted strings of a field type that is a literal or an enum."""
    words: list[str] = []
    for member in union_members(field_type):
        base, _ = strip_annotated(member)
        if get_origin(base) is Literal:
            words += [value for value in get_args(base) if isinstance(value, str)]
        elif isinstance(base, type) and issubclass(base, Enum):
            words += [item.value for item in base if isinstance(item.value, str)]
    return words


def with_article(noun: str) -> str:
    """A noun with its article."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def slot_names(slot: BoundSlot) -> str:
    """The components that fit a slot, as text for a message."""
    names = slot.binder.registry.names(slot.kind) if slot.parts() else []
    if len(names) > MAX_NAMES_LISTED:
        return f"`kit list {slot.kind}` shows all {len(names)}"
    return f"one of {', '.join(names)}" if names else "none is installed"


def _one(field_type: FieldType) -> str | None:
    base, metadata = strip_annotated(field_type)
    for item in metadata:
        if isinstance(item, BoundSlot):
            return f"the name of {with_article(item.kind)} ({slot_names(item)}) or a mapping with its options"
        if isinstance(item, BoundModel):
            return _keys(item.model)
    limits = {
        name: value for item in metadata for name in _CONSTRAINTS if (value := getattr(item, name, None)) is not None
    }
    origin = get_origin(base)
    if origin is Literal:
        return _choice(get_args(base))
    if isinstance(base, type) and issubclass(base, Enum):
        return _choice([item.value for item in base])
    if origin in (Union, types.UnionType):
        return expected(base)
    if base in _PLAIN:
        return _PLAIN[base] + _limited(limits, "character")
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping" + _limited(limits, "key")
    if isinstance(origin, type) and issubclass(origin, Sequence | Set):
        return _list(base, limits)
    return None


def _list(base: Any, limits: dict[str, Any]) -> str | None:
    arguments = get_args(base)
    if get_origin(base) is tuple and arguments[-1] is not Ellipsis:
        return f"a list of {len(arguments)} values"
    item = expected(arguments[0])
    return None if item is None else f"a list{_limited(limits, 'item')}, each {item}"


def _keys(model: type[BaseModel]) -> str:
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    return f"a mapping with the keys {', '.join(required)}" if required else "a mapping"


def _choice(values: Sequence[Any]) -> str:
    words = [value if isinstance(value, str) else yaml_spelling(value) for value in values]
    return f"one of {', '.join(words)}" if len(words) > 1 else words[0]


def _limited(limits: dict[str, Any], counted: str) -> str:
    """The constraints in words, to follow a noun."""
    words = [form.format(_number(limits[name])) for name, form in _LIMITS.items() if name in limits]
    least, most = limits.get("min_length"), limits.get("max_length")
    if least is not None and most is not None:
        words.append(f"of {least} to {_counted(most, counted)}")
    elif least is not None:
        words.append(f"of at least {_counted(least, counted)}")
    elif most is not None:
        words.append(f"of at most {_counted(most, counted)}")
    text = f" {' and '.join(words)}" if words else ""
    return f"{text} that matches {limits['pattern']}" if "pattern" in limits else text


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
