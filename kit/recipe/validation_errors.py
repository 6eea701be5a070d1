"""Converts pydantic validation errors to problems: what was found, what was wanted, and a hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from kit.errors import Problem
from kit.plugin.component import Options
from kit.recipe.nodes import NodePath
from kit.recipe.schema_path import (
    FieldType,
    allowed_values,
    descend,
    expected,
    slot_names,
    slot_or_model,
    strip_annotated,
    union_members,
    with_article,
)
from kit.recipe.slot_schema import PART_STEP, UNION_STEP, BoundSlot
from kit.recipe.yaml_reader import ScalarError, resolve, short, yaml_spelling

Location = tuple[str | int, ...]


class MissingKey(Problem):
    """A required key is missing."""


class UnknownKey(Problem):
    """A key is unknown; possibly a missing one, misspelt."""


def explain_errors(errors: Sequence[ErrorDetails], root: FieldType, data: Any) -> Iterator[Problem]:
    """Yields a problem for each error; errors of the members of a union about one value become one problem."""
    reported: set[Location] = set()
    for error in errors:
        location = error["loc"]
        for index, step in enumerate(location):
            if not _is_step(step, UNION_STEP):
                continue
            outer = location[:index]
            value = value_at(data, plain_path(outer))
            meant = _meant(_field_type(root, outer), value)
            if meant is None:
                if outer not in reported:
                    reported.add(outer)
                    yield _mismatch(plain_path(outer), _field_type(root, outer), value, None)
                break
            if step != f"{UNION_STEP}{meant}":
                break
        else:
            yield _problem(error, root)


def plain_path(location: Location) -> NodePath:
    """A pydantic location without the steps for selected components and union members."""
    kept = (step for step in location if not _is_step(step, PART_STEP) and not _is_step(step, UNION_STEP))
    return tuple(step for step in kept if step != "[key]")


def value_at(data: Any, path: NodePath) -> Any:
    """The value at a path; None if there is none."""
    for step in path:
        if isinstance(data, BaseModel) and isinstance(step, str):
            data = getattr(data, step, None)
            continue
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _is_step(step: str | int, prefix: str) -> bool:
    return isinstance(step, str) and step.startswith(prefix)


def _field_type(root: FieldType, location: Location) -> FieldType:
    field_type = root
    for step in location:
        field_type = descend(field_type, step)
    return field_type


def _meant(field_type: FieldType, value: Any) -> int | None:
    """The index of the union member that fits the type of a value; None if none fits."""
    target = slot_or_model(field_type, value) if isinstance(value, Mapping) else None
    for index, member in enumerate(union_members(field_type)):
        base, _ = strip_annotated(member)
        if target is not None and slot_or_model(member) == target:
            return index
        if isinstance(value, Mapping) and get_origin(base) is dict:
            return index
        if isinstance(value, list | tuple) and get_args(base) and get_origin(base) in (list, tuple, set, frozenset):
            return index
    return None


def _problem(error: ErrorDetails, root: FieldType) -> Problem:
    location, value, context = error["loc"], error["input"], error.get("ctx", {})
    path, field_type = plain_path(location), _field_type(root, location)
    match error["type"]:
        case "missing":
            words = expected(field_type)
            field = _field(root, location)
            return MissingKey(f"missing, wanted {words}" if words else "missing", path, hint=field)
        case "extra_forbidden":
            return _unknown_key(path, root, location)
        case "kit_part":
            text, _, hint = str(context["text"]).partition("\n")
            return Problem(text, _use_path(path, value), hint=hint.strip() or None)
        case "kit_unchosen":
            slot = slot_or_model(field_type)
            names = slot_names(slot) if isinstance(slot, BoundSlot) else "its name"
            return Problem(
                f"missing, wanted the name of {with_article(str(context['kind']))} ({names})", (*path, "use")
            )
        case "kit_unnamed":
            name = value["use"] if isinstance(value, Mapping) else value
            return _mismatch(_use_path(path, value), field_type, name, None)
        case "value_error" | "assertion_error":
            text = str(context.get("error", error["msg"]))
            shown = "" if isinstance(value, Mapping | BaseModel) else f"found {found(value)}: "
            return Problem(shown + text, path)
    return _mismatch(path, field_type, context.get("found") or value, error["msg"], verbatim="found" in context)


def _mismatch(
    path: NodePath, field_type: FieldType, value: Any, otherwise: str | None, *, verbatim: bool = False
) -> Problem:
    words = expected(field_type) or (otherwise or "something else").removeprefix("Input should be ")
    shown = value if verbatim else found(value)
    return Problem(f"found {shown}, wanted {words}", path, hint=_hint(value, field_type, words))


def found(value: Any) -> str:
    """A value in words, for messages."""
    if isinstance(value, Mapping):
        return f"a mapping ({_listed(list(value))})" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, Options):
        return f"the options of '{value.use}'"
    if value is None or isinstance(value, str | int | float | bool):
        return yaml_spelling(value)
    return f"a Python object of type {type(value).__name__}"


def _listed(keys: list[Any]) -> str:
    return ", ".join([short(str(key)) for key in keys[:4]] + (["..."] if len(keys) > 4 else []))


def _hint(value: Any, field_type: FieldType, words: str) -> str | None:
    """A hint for common slips."""
    if isinstance(value, str):
        near = difflib.get_close_matches(value[:100], allowed_values(field_type), 1)
        if near:
            return f"did you mean {near[0]}?"
        if "true or false" in words and value.lower() in ("yes", "on", "true", "no", "off", "false"):
            return f"write {'true' if value.lower() in ('yes', 'on', 'true') else 'false'}"
        if "number" in words and _is_number(value):
            return f"write {value.replace('_', '')}, without {'underscores' if '_' in value else 'quotes'}"
        if words.startswith("a list"):
            return f"write [{short(value)}]"
    if isinstance(value, float) and "whole number" in words and value.is_integer() and abs(value) < 1e15:
        return f"write {int(value)}"
    return None


def _is_number(text: str) -> bool:
    try:
        return isinstance(resolve(text.replace("_", "")), int | float) and text not in ("true", "false")
    except ScalarError:
        return False


def _field(root: FieldType, location: Location) -> str | None:
    model = slot_or_model(_field_type(root, location[:-1]))
    if isinstance(model, type) and location[-1] in model.model_fields:
        return model.model_fields[str(location[-1])].description
    return None


def _unknown_key(path: NodePath, root: FieldType, location: Location) -> Problem:
    key = str(path[-1])
    model = slot_or_model(_field_type(root, location[:-1]))
    keys = list(model.model_fields) if isinstance(model, type) else []
    near = difflib.get_close_matches(key[:100], keys, 1)
    slot = (
        slot_or_model(_field_type(root, location[:-2]))
        if len(location) > 1 and _is_step(location[-2], PART_STEP)
        else None
    )
    if isinstance(slot, BoundSlot):
        part = str(location[-2]).rpartition("/")[2]
        options = [name for name in keys if name != "use"]
        text = f"the {slot.kind} '{part}' has no option {yaml_spelling(key)}; "
        text += f"it has {', '.join(options)}" if options else "it has none"
    else:
        text = f"there is no {yaml_spelling(key)} here; the keys are {', '.join(keys)}"
    return UnknownKey(text, path, hint=f"did you mean {near[0]}?" if near else None)


def _use_path(path: NodePath, value: Any) -> NodePath:
    return (*path, "use") if isinstance(value, Mapping) and "use" in value else path
