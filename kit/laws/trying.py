"""Which options a part is tried with: its defaults made small, then every other choice that its options offer.

Each round takes another value of every option at once, so that a few rounds go through all values of all options. A
value that the part refuses beside the others is left as it was. What a part lists in `examples` is tried besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from kit.component import Options, Slot

Fill = Callable[[str], Options | None]
"""A part of a kind, to fill a slot with."""
Fits = Callable[[Options], bool]
"""Whether there is a place in a model where a part with these options can stand."""

SMALL = (4, 2, 8, 3)
"""What stands in for a size whose default is too large to be tried, in order of preference."""
LARGE = 5
ROUNDS = 3


def slot_of(field: FieldInfo) -> tuple[str, bool] | None:
    """The kind of part that an option holds, and whether it holds a list of them; None where it holds no part."""
    for item in field.metadata:
        if isinstance(item, Slot):
            return item.kind, False
    return _slot_in(field.annotation)


def tried(options_type: type[Options], fill: Fill, fits: Fits, shrink: bool = True) -> list[Options]:
    """The options to try; at least one, which may be refused everywhere, so that the refusal is seen.

    shrink: whether large sizes are made small, for parts that are built with them.
    """
    start: dict[str, Any] = {}
    for name, field in options_type.model_fields.items():
        if field.is_required():
            start[name] = _needed(field, fill)
    for name, field in options_type.model_fields.items() if shrink else ():
        small = [size for size in SMALL if isinstance(field.default, int) and field.default >= LARGE]
        start = _first_that_fits(options_type, start, name, small, fits)
    rounds = [start]
    choices = {name: _choices(field) for name, field in options_type.model_fields.items() if name != "use"}
    for number in range(1, min(ROUNDS, max([1, *map(len, choices.values())]))):
        chosen = dict(start)
        for name, values in choices.items():
            if len(values) > 1:
                chosen = _first_that_fits(options_type, chosen, name, [values[number % len(values)]], fits)
        rounds.append(chosen)
    made = [options for values in rounds if (options := _made(options_type, values)) is not None]
    return [options for number, options in enumerate(made) if options not in made[:number]]


def sizes(options_type: type[Options]) -> list[str]:
    """The options that are whole numbers, or may be."""
    return [
        name for name, field in options_type.model_fields.items() if int in _members(field.annotation) and name != "use"
    ]


def _first_that_fits(
    options_type: type[Options], values: Mapping[str, Any], name: str, candidates: Sequence[Any], fits: Fits
) -> dict[str, Any]:
    for candidate in candidates:
        changed = {**values, name: candidate}
        options = _made(options_type, changed)
        if options is not None and fits(options):
            return changed
    return dict(values)


def _made(options_type: type[Options], values: Mapping[str, Any]) -> Options | None:
    try:
        return options_type.model_validate(values)
    except ValidationError:
        return None


def _needed(field: FieldInfo, fill: Fill) -> Any:
    slot = slot_of(field)
    if slot is not None:
        return [fill(slot[0])] if slot[1] else fill(slot[0])
    members = _members(field.annotation)
    literals = [member for member in members if get_origin(member) is Literal]
    if literals:
        return get_args(literals[0])[0]
    return next(
        (value for kind, value in ((int, 2), (float, 0.5), (str, "example"), (bool, False)) if kind in members), None
    )


def _choices(field: FieldInfo) -> list[Any]:
    """Every value worth trying, the default first."""
    if field.is_required() or slot_of(field) is not None:
        return []
    found: list[Any] = [field.default]
    for member in _members(field.annotation):
        if get_origin(member) is Literal:
            found += get_args(member)
        elif member is bool:
            found += [True, False]
        elif member is int and field.default is None:
            found.append(2)
        elif member is float and field.default is None:
            found.append(0.5)
    return [value for number, value in enumerate(found) if value not in found[:number]]


def _members(annotation: Any) -> list[Any]:
    """The types that a value may have, without what is said about them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _members(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [each for member in get_args(annotation) for each in _members(member)]
    return [annotation]


def _slot_in(annotation: Any) -> tuple[str, bool] | None:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        for item in arguments[1:]:
            if isinstance(item, Slot):
                return item.kind, False
        return _slot_in(arguments[0])
    for argument in arguments if origin is not Literal else ():
        found = _slot_in(argument)
        if found is not None:
            return found[0], found[1] or origin is list
    return None
