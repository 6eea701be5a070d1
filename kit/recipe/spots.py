"""Walks the bound recipe type along a path: what may stand at each place.

A spot is an annotation of a bound field, or the bound model itself; None where nothing is known.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from kit.recipe.bound import CHOSEN, MEMBER, BoundModel, BoundSlot

Spot = Any


def peel(spot: Spot) -> tuple[Any, list[Any]]:
    """An annotation without its metadata, and that metadata."""
    metadata: list[Any] = []
    origin: Any = get_origin(spot)
    while origin is Annotated:
        spot, *more = get_args(spot)
        metadata = [*more, *metadata]
        origin = get_origin(spot)
    return spot, metadata


def members(spot: Spot) -> list[Spot]:
    """What a union is made of, without null; any other annotation is its own only member."""
    base, _ = peel(spot)
    if get_origin(base) in (Union, types.UnionType):
        return [member for member in get_args(base) if member is not type(None)]
    return [spot]


def structure(spot: Spot, keys: Iterable[str] = ()) -> BoundSlot | type[BaseModel] | None:
    """The slot or model that a mapping with these keys is meant for, among the members of a spot."""
    given = set(keys)
    slot: BoundSlot | None = None
    best: type[BaseModel] | None = None
    for member in members(spot):
        base, metadata = peel(member)
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


def spot_of(field: FieldInfo) -> Spot:
    """The spot of a field."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def model_at(spot: Spot, value: Mapping[str, Any]) -> type[BaseModel] | None:
    """The bound model that a mapping at this spot is read with, the chosen part's where it is a slot."""
    found = structure(spot, value)
    if not isinstance(found, BoundSlot):
        return found
    try:
        return found.binder.bound(found.part_of(value).component.options_type)
    except PydanticCustomError:
        return None


def inside(spot: Spot, step: str | int) -> Spot:
    """The spot one step further along a location that pydantic gives."""
    if isinstance(step, str) and step.startswith(MEMBER):
        return _labelled(spot, int(step.removeprefix(MEMBER)))
    if isinstance(step, str) and step.startswith(CHOSEN):
        slot = structure(spot)
        return _chosen(slot, step.removeprefix(CHOSEN)) if isinstance(slot, BoundSlot) else None
    for member in members(spot):
        found = structure(member)
        if isinstance(found, type) and step in found.model_fields:
            return spot_of(found.model_fields[str(step)])
        base, _ = peel(member)
        arguments = get_args(base)
        if get_origin(base) is dict and isinstance(step, str) and len(arguments) == 2:
            return arguments[1]
        if get_origin(base) is not dict and isinstance(step, int) and arguments:
            return _item(arguments, step)
    return None


def _item(arguments: tuple[Any, ...], index: int) -> Spot:
    if len(arguments) == 1 or arguments[-1] is Ellipsis:
        return arguments[0]
    return arguments[index] if index < len(arguments) else None


def _labelled(spot: Spot, index: int) -> Spot:
    found = members(spot)
    return found[index] if index < len(found) else None


def _chosen(slot: BoundSlot, scoped: str) -> Spot:
    for part in slot.parts():
        if part.scoped == scoped:
            return slot.binder.bound(part.component.options_type)
    return None
