"""Takes objects apart into the tensors and whole numbers that they hold, and puts them together again.

What a step reads and changes is spread over objects: layouts, a memory, the states of all parts, also of parts that
nobody has written yet. Taken apart, it is a list that a compiled step can be called with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

Shape: TypeAlias = tuple[Any, ...]
"""How leaves hang together; equal for things that differ in their leaves alone."""

_FIXED = frozenset({type(None), bool, float, str, bytes, torch.dtype, torch.device})
_MADE_OF_FIXED = (Enum, float, str, bytes)
_NUMBERS = (int, torch.SymInt)
_LISTS = (list, tuple, torch.Size)
_WRITTEN_IN_PYTHON = 1 << 9
"""The flag of classes that Python code made: others may hold what no attribute tells."""


class NotLeaves(Exception):
    """Something that is neither a leaf nor made of leaves."""


def take_apart(thing: object) -> tuple[Shape, list[Any]]:
    """The shape of a thing, and its leaves in order; what occurs twice is one leaf."""
    leaves: list[Any] = []
    known: dict[int, int] = {}
    return _shape(thing, leaves, known), leaves


def _shape(thing: Any, leaves: list[Any], known: dict[int, int]) -> Shape:
    kind: Any = type(thing)
    if kind is torch.SymBool:
        thing, kind = bool(thing), bool
    if kind in _FIXED or isinstance(thing, _MADE_OF_FIXED):
        return ("fixed", kind, thing)  # True, 1 and 1.0 are equal, and not the same
    if kind in _NUMBERS or isinstance(thing, int):
        leaves.append(thing)
        return ("number",)
    if id(thing) in known:
        return ("again", known[id(thing)])
    known[id(thing)] = len(known)
    if isinstance(thing, Tensor):
        leaves.append(thing)
        return ("tensor",)
    if kind in _LISTS:
        return (kind, *[_shape(each, leaves, known) for each in thing])
    if kind is dict:
        return (dict, *[(name, _shape(each, leaves, known)) for name, each in thing.items()])
    if not _told_by_attributes(kind) or callable(thing):
        raise NotLeaves(f"a {kind.__name__}")
    return ("object", kind, *[(name, _shape(each, leaves, known)) for name, each in vars(thing).items()])


@lru_cache(maxsize=256)
def _told_by_attributes(kind: type) -> bool:
    """Whether all that an object of this class holds stands in its dictionary."""
    own = [base for base in kind.__mro__ if base is not object]
    slots = any(vars(base).get("__slots__") for base in own)
    return bool(own) and not slots and all(base.__flags__ & _WRITTEN_IN_PYTHON for base in own)


def put_together(shape: Shape, leaves: Iterable[Any]) -> Any:
    """A thing of this shape; objects are new ones. Of an iterator as many leaves are taken as it needs."""
    return _thing(shape, iter(leaves), [])


def _thing(shape: Shape, leaves: Iterator[Any], known: list[Any]) -> Any:
    kind = shape[0]
    if kind == "fixed":
        return shape[2]
    if kind == "again":
        return known[shape[1]]
    if kind == "number":
        return next(leaves)
    if kind == "tensor":
        known.append(next(leaves))
        return known[-1]
    place = len(known)
    known.append(None)
    thing: Any
    if kind in _LISTS:
        thing = kind([_thing(each, leaves, known) for each in shape[1:]])
    elif kind is dict:
        thing = {name: _thing(each, leaves, known) for name, each in shape[1:]}
    else:
        thing = object.__new__(shape[1])
        known[place] = thing
        for name, each in shape[2:]:
            thing.__dict__[name] = _thing(each, leaves, known)
    known[place] = thing
    return thing


def reader(shape: Shape, leaves: Sequence[Any]) -> Callable[[object], list[Any] | None]:
    """A function that takes things of this shape apart, several times as fast; None for things of another.

    leaves: of one such thing; tensors must be of the same types and axes, and lie without gaps where these do.
    """
    lines = ["def read(thing):", "    try:"]
    scope: dict[str, Any] = {}
    found: list[str] = []
    known: list[str] = []
    _read(shape, "thing", lines, scope, found, known)
    for name, leaf in zip(found, leaves, strict=False):
        if isinstance(leaf, Tensor):
            scope[f"{name}_type"] = leaf.dtype
            whole = f" or not {name}.is_contiguous()" if leaf.is_contiguous() else ""
            same = f"{name}.dtype is not {name}_type or {name}.ndim != {leaf.ndim}"
            lines.append(f"        if {same}{whole}: return None")
    lines += [f"        return [{', '.join(found)}]", "    except (AttributeError, KeyError):", "        return None"]
    exec("\n".join(lines), scope)
    function: Callable[[object], list[Any] | None] = scope["read"]
    return function


def _read(shape: Shape, name: str, lines: list[str], scope: dict[str, Any], found: list[str], known: list[str]) -> None:
    """Lines that look at the thing of this name, and the names of its leaves."""
    kind = shape[0]

    def refuse(condition: str) -> None:
        lines.append(f"        if {condition}: return None")

    def inside(each: Shape, place: str) -> None:
        scope["count"] = scope.get("count", 0) + 1
        inner = f"v{scope['count']}"
        lines.append(f"        {inner} = {place}")
        _read(each, inner, lines, scope, found, known)

    if kind == "fixed":
        scope[f"{name}_kind"], scope[f"{name}_fixed"] = shape[1:]
        refuse(f"{name} is not {name}_fixed and (type({name}) is not {name}_kind or {name} != {name}_fixed)")
    elif kind == "number":
        found.append(name)
        refuse(f"type({name}) is not int")
    elif kind == "tensor":
        found.append(name)
        known.append(name)
    elif kind == "again":
        refuse(f"{name} is not {known[shape[1]]}")
    else:
        known.append(name)
        scope[f"{name}_kind"] = shape[1] if kind == "object" else kind
        refuse(f"type({name}) is not {name}_kind")
        if kind in _LISTS:
            refuse(f"len({name}) != {len(shape) - 1}")
            for number, each in enumerate(shape[1:]):
                inside(each, f"{name}[{number}]")
        else:
            fields = shape[1:] if kind is dict else shape[2:]
            lines.append(f"        {name}_at = {name}" + ("" if kind is dict else ".__dict__"))
            refuse(f"len({name}_at) != {len(fields)}")
            for field, each in fields:
                inside(each, f"{name}_at[{field!r}]")
