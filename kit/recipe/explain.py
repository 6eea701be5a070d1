"""Turns what pydantic found wrong into problems a person can act on: what was found, what was wanted, what to type."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from kit.component import Options
from kit.errors import Problem
from kit.recipe.bound import CHOSEN, MEMBER, BoundSlot
from kit.recipe.nodes import Path
from kit.recipe.scalars import ScalarError, resolve, spelled
from kit.recipe.spots import Spot, inside, members, peel, structure
from kit.recipe.wanted import a, allowed, names_of, wanted

Location = tuple[str | int, ...]


class MissingKey(Problem):
    """A key is wanted that is not there."""


class UnknownKey(Problem):
    """A key is there that nobody knows, perhaps one that is missing, misspelt."""


def explain(errors: Sequence[ErrorDetails], root: Spot, data: Any) -> Iterator[Problem]:
    """A problem for each mistake; what the members of a union say against one value is one mistake."""
    reported: set[Location] = set()
    for error in errors:
        location = error["loc"]
        for index, step in enumerate(location):
            if not _is_step(step, MEMBER):
                continue
            outer = location[:index]
            value = value_at(data, plain_path(outer))
            meant = _meant(_spot(root, outer), value)
            if meant is None:
                if outer not in reported:
                    reported.add(outer)
                    yield _mismatch(plain_path(outer), _spot(root, outer), value, None)
                break
            if step != f"{MEMBER}{meant}":
                break
        else:
            yield _problem(error, root)


def plain_path(location: Location) -> Path:
    """A location without the steps that stand for a choice."""
    kept = (step for step in location if not _is_step(step, CHOSEN) and not _is_step(step, MEMBER))
    return tuple(step for step in kept if step != "[key]")


def value_at(data: Any, path: Path) -> Any:
    """The value at a path; None where there is none."""
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


def _spot(root: Spot, location: Location) -> Spot:
    spot = root
    for step in location:
        spot = inside(spot, step)
    return spot


def _meant(spot: Spot, value: Any) -> int | None:
    """Which member of a union a value is meant for, by its shape; None where it has the shape of none."""
    target = structure(spot, value) if isinstance(value, Mapping) else None
    for index, member in enumerate(members(spot)):
        base, _ = peel(member)
        if target is not None and structure(member) == target:
            return index
        if isinstance(value, Mapping) and get_origin(base) is dict:
            return index
        if isinstance(value, list | tuple) and get_args(base) and get_origin(base) in (list, tuple, set, frozenset):
            return index
    return None


def _problem(error: ErrorDetails, root: Spot) -> Problem:
    location, value, context = error["loc"], error["input"], error.get("ctx", {})
    path, spot = plain_path(location), _spot(root, location)
    match error["type"]:
        case "missing":
            words = wanted(spot)
            field = _field(root, location)
            return MissingKey(f"missing, wanted {words}" if words else "missing", path, hint=field)
        case "extra_forbidden":
            return _unknown_key(path, root, location)
        case "kit_part":
            text, _, hint = str(context["text"]).partition("\n")
            return Problem(text, _use_path(path, value), hint=hint.strip() or None)
        case "kit_unchosen":
            slot = structure(spot)
            names = names_of(slot) if isinstance(slot, BoundSlot) else "its name"
            return Problem(f"missing, wanted the name of {a(str(context['kind']))} ({names})", (*path, "use"))
        case "kit_unnamed":
            name = value["use"] if isinstance(value, Mapping) else value
            return _mismatch(_use_path(path, value), spot, name, None)
        case "value_error" | "assertion_error":
            text = str(context.get("error", error["msg"]))
            shown = "" if isinstance(value, Mapping | BaseModel) else f"found {found(value)}: "
            return Problem(shown + text, path)
    return _mismatch(path, spot, context.get("found") or value, error["msg"], verbatim="found" in context)


def _mismatch(path: Path, spot: Spot, value: Any, otherwise: str | None, *, verbatim: bool = False) -> Problem:
    words = wanted(spot) or (otherwise or "something else").removeprefix("Input should be ")
    shown = value if verbatim else found(value)
    return Problem(f"found {shown}, wanted {words}", path, hint=_hint(value, spot, words))


def found(value: Any) -> str:
    """A value as a message names it."""
    if isinstance(value, Mapping):
        return f"a mapping ({_listed(list(value))})" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, Options):
        return f"the options of '{value.use}'"
    if value is None or isinstance(value, str | int | float | bool):
        return spelled(value)
    return f"a Python object of type {type(value).__name__}"


def _listed(keys: list[Any]) -> str:
    return ", ".join([str(key)[:40] for key in keys[:4]] + (["..."] if len(keys) > 4 else []))


def _hint(value: Any, spot: Spot, words: str) -> str | None:
    """What to type instead, for the slips that are common."""
    if isinstance(value, str):
        near = difflib.get_close_matches(value[:100], allowed(spot), 1)
        if near:
            return f"did you mean {near[0]}?"
        if "true or false" in words and value.lower() in ("yes", "on", "true", "no", "off", "false"):
            return f"write {'true' if value.lower() in ('yes', 'on', 'true') else 'false'}"
        if "number" in words and _is_number(value):
            return f"write {value.replace('_', '')}, without {'underscores' if '_' in value else 'quotes'}"
        if words.startswith("a list"):
            return f"write [{value[:40]}]"
    if isinstance(value, float) and "whole number" in words and value.is_integer() and abs(value) < 1e15:
        return f"write {int(value)}"
    return None


def _is_number(text: str) -> bool:
    try:
        return isinstance(resolve(text.replace("_", "")), int | float) and text not in ("true", "false")
    except ScalarError:
        return False


def _field(root: Spot, location: Location) -> str | None:
    model = structure(_spot(root, location[:-1]))
    if isinstance(model, type) and location[-1] in model.model_fields:
        return model.model_fields[str(location[-1])].description
    return None


def _unknown_key(path: Path, root: Spot, location: Location) -> Problem:
    key = str(path[-1])
    model = structure(_spot(root, location[:-1]))
    keys = list(model.model_fields) if isinstance(model, type) else []
    near = difflib.get_close_matches(key[:100], keys, 1)
    slot = structure(_spot(root, location[:-2])) if len(location) > 1 and _is_step(location[-2], CHOSEN) else None
    if isinstance(slot, BoundSlot):
        part = str(location[-2]).rpartition("/")[2]
        options = [name for name in keys if name != "use"]
        text = f"the {slot.kind} '{part}' has no option {spelled(key)}; "
        text += f"it has {', '.join(options)}" if options else "it has none"
    else:
        text = f"there is no {spelled(key)} here; the keys are {', '.join(keys)}"
    return UnknownKey(text, path, hint=f"did you mean {near[0]}?" if near else None)


def _use_path(path: Path, value: Any) -> Path:
    return (*path, "use") if isinstance(value, Mapping) and "use" in value else path
