"""Option grid: the sets of options that a part is tested with, small defaults, then all other allowed values.

Each set changes all options at once, so that a few sets cover all values of all options. Values that the part refuses
in such a set are left out. The `examples` of a part are tested too, and its required options are taken from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from kit.plugin.component import Options, Slot

Fill = Callable[[str], Options | None]
"""Returns the options of a part of a kind, for a slot."""
Fits = Callable[[Options], bool]
"""Whether a part with these options has a setting in a model."""

SMALL = (4, 2, 8, 3)
"""Replacements of large default sizes, in order of preference."""
LARGE = 5
"""The smallest default size that is replaced."""
MAX_SETS = 3
"""The most sets of options, besides examples."""


def slot_of(field: FieldInfo) -> tuple[str, bool] | None:
    """Returns the kind of part in an option and whether it is a list; None if it is no slot."""
    for item in field.metadata:
        if isinstance(item, Slot):
            return item.kind, False
    return _slot_in(field.annotation)


def option_grid(
    options_type: type[Options], fill: Fill, fits: Fits, shrink: bool = True, example: Options | None = None
) -> list[Options]:
    """Returns the sets of options to test, even if no setting supports them, so that the error is reported.

    Empty if a required option, such as a pattern, cannot be guessed.

    shrink: whether large sizes are replaced by small ones, for parts that are built with them; example: where required
    options are taken from.
    """
    base: dict[str, Any] = {}
    for name, field in options_type.model_fields.items():
        if field.is_required():
            base[name] = _required_value(field, fill) if example is None else getattr(example, name)
    for name, field in options_type.model_fields.items() if shrink else ():
        small = [size for size in SMALL if isinstance(field.default, int) and field.default >= LARGE]
        base = _with_first_fitting(options_type, base, name, small, fits)
    sets = [base]
    values_of = {name: _values(field) for name, field in options_type.model_fields.items() if name != "use"}
    for number in range(1, min(MAX_SETS, max([1, *map(len, values_of.values())]))):
        chosen = dict(base)
        for name, values in values_of.items():
            if len(values) > 1:
                chosen = _with_first_fitting(options_type, chosen, name, [values[number % len(values)]], fits)
        sets.append(chosen)
    made = [options for values in sets if (options := _validated(options_type, values)) is not None]
    return [options for number, options in enumerate(made) if options not in made[:number]]


def sizes(options_type: type[Options]) -> list[str]:
    """Returns the names of integer options."""
    return [
        name for name, field in options_type.model_fields.items() if int in _members(field.annotation) and name != "use"
    ]


def _with_first_fitting(
    options_type: type[Options], values: Mapping[str, Any], name: str, candidates: Sequence[Any], fits: Fits
) -> dict[str, Any]:
    for candidate in candidates:
        changed = {**values, name: candidate}
        options = _validated(options_type, changed)
        if options is not None and fits(options):
            return changed
    return dict(values)


def _validated(options_type: type[Options], values: Mapping[str, Any]) -> Options | None:
    try:
        return options_type.model_validate(values)
    except ValidationError:
        return None


def _required_value(field: FieldInfo, fill: Fill) -> Any:
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


def _values(field: FieldInfo) -> list[Any]:
    """Returns the values to test, the default first."""
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
    """Returns the member types of an annotation."""
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
