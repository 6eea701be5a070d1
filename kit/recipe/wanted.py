"""Says in words what may stand at a place of a recipe: 'a whole number above 0', 'one of pre, post'."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from kit.recipe.bound import BoundModel, BoundSlot
from kit.recipe.scalars import spelled
from kit.recipe.spots import Spot, members, peel

_LIMITS = {
    "gt": "above {}",
    "ge": "of at least {}",
    "lt": "below {}",
    "le": "at most {}",
    "multiple_of": "divisible by {}",
}
_ASKED = (*_LIMITS, "min_length", "max_length", "pattern")
_PLAIN: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    Path: "a path",
    dict: "a mapping",
    type(None): "null",
}
MANY = 16
"""Past so many names, a message says where to find them instead of listing them."""


def wanted(spot: Spot) -> str | None:
    """What may stand at a spot; None where that cannot be said shortly."""
    if isinstance(spot, type) and issubclass(spot, BaseModel):
        return _keys(spot)
    choices = [_one(member) for member in members(spot)]
    known = [choice for choice in choices if choice is not None]
    return ", or ".join(dict.fromkeys(known)) if len(known) == len(choices) else None


def allowed(spot: Spot) -> list[str]:
    """The texts that may stand at a spot, where it is one of a few words."""
    words: list[str] = []
    for member in members(spot):
        base, _ = peel(member)
        if get_origin(base) is Literal:
            words += [value for value in get_args(base) if isinstance(value, str)]
        elif isinstance(base, type) and issubclass(base, Enum):
            words += [item.value for item in base if isinstance(item.value, str)]
    return words


def a(noun: str) -> str:
    """A noun with its article."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def names_of(slot: BoundSlot) -> str:
    """The parts that may fill a slot, as a list for a person."""
    names = slot.binder.registry.names(slot.kind) if slot.parts() else []
    if len(names) > MANY:
        return f"`kit list {slot.kind}` shows all {len(names)}"
    return f"one of {', '.join(names)}" if names else "none is installed"


def _one(spot: Spot) -> str | None:
    base, metadata = peel(spot)
    for item in metadata:
        if isinstance(item, BoundSlot):
            return f"the name of {a(item.kind)} ({names_of(item)}) or a mapping with its options"
        if isinstance(item, BoundModel):
            return _keys(item.model)
    limits = {name: value for item in metadata for name in _ASKED if (value := getattr(item, name, None)) is not None}
    origin = get_origin(base)
    if origin is Literal:
        return _choice(get_args(base))
    if isinstance(base, type) and issubclass(base, Enum):
        return _choice([item.value for item in base])
    if origin in (Union, types.UnionType):
        return wanted(base)
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
    item = wanted(arguments[0])
    return None if item is None else f"a list{_limited(limits, 'item')}, each {item}"


def _keys(model: type[BaseModel]) -> str:
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    return f"a mapping with the keys {', '.join(required)}" if required else "a mapping"


def _choice(values: Sequence[Any]) -> str:
    words = [value if isinstance(value, str) else spelled(value) for value in values]
    return f"one of {', '.join(words)}" if len(words) > 1 else words[0]


def _limited(limits: dict[str, Any], counted: str) -> str:
    """The limits in words, to be put after a noun."""
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
