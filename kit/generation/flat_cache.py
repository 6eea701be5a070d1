"""Flattened decoding cache: tensors and integers as a list for compiled steps, unflattened on demand.

A decoding step reads and changes layouts, an encoder output and the caches of all parts, including parts of plugins.
Flattening such objects (as `torch.utils._pytree` does for containers) gives the leaves that a compiled step is called
with, and a tree specification that tells which compiled step fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

from kit.sequence.cache import Cache

TreeSpec: TypeAlias = tuple[Any, ...]
"""The nested structure of flattened objects; equal for objects that differ in their leaves alone."""

_CONSTANT_TYPES = frozenset({type(None), bool, float, str, bytes, torch.dtype, torch.device})
_CONSTANT_BASES = (Enum, float, str, bytes)
_INTEGERS = (int, torch.SymInt)
_LISTS = (list, tuple, torch.Size)
_HEAP_TYPE = 1 << 9
"""`Py_TPFLAGS_HEAPTYPE`, set for classes defined in Python: others may hold data outside of their `__dict__`."""


class NotFlattenable(Exception):
    """An object that is neither a leaf nor a container of leaves."""


def flatten(tree: object) -> tuple[TreeSpec, list[Any]]:
    """Returns the tree specification of an object and its leaves in order; a shared object is stored once."""
    leaves: list[Any] = []
    known: dict[int, int] = {}
    return _spec(tree, leaves, known), leaves


def _spec(node: Any, leaves: list[Any], known: dict[int, int]) -> TreeSpec:
    kind: Any = type(node)
    if kind is torch.SymBool:
        node, kind = bool(node), bool
    if kind in _CONSTANT_TYPES or isinstance(node, _CONSTANT_BASES):
        return ("constant", kind, node)  # True, 1 and 1.0 are equal, and not the same
    if kind in _INTEGERS or isinstance(node, int):
        leaves.append(node)
        return ("integer",)
    if id(node) in known:
        return ("shared", known[id(node)])
    known[id(node)] = len(known)
    if isinstance(node, Tensor):
        leaves.append(node)
        return ("tensor",)
    if kind in _LISTS:
        return (kind, *[_spec(each, leaves, known) for each in node])
    if kind is dict:
        return (dict, *[(name, _spec(each, leaves, known)) for name, each in node.items()])
    if not _is_plain_object(kind) or callable(node):
        raise NotFlattenable(f"a {kind.__name__}")
    return ("object", kind, *[(name, _spec(each, leaves, known)) for name, each in vars(node).items()])


@lru_cache(maxsize=256)
def _is_plain_object(kind: type) -> bool:
    """Whether objects of this class hold all of their data in `__dict__`."""
    own = [base for base in kind.__mro__ if base is not object]
    slots = any(vars(base).get("__slots__") for base in own)
    return bool(own) and not slots and all(base.__flags__ & _HEAP_TYPE for base in own)


def unflatten(spec: TreeSpec, leaves: Iterable[Any]) -> Any:
    """Builds new objects from a specification and leaves; an iterator is advanced by as many leaves as are used."""
    return _build(spec, iter(leaves), [])


def _build(spec: TreeSpec, leaves: Iterator[Any], known: list[Any]) -> Any:
    kind = spec[0]
    if kind == "constant":
        return spec[2]
    if kind == "shared":
        return known[spec[1]]
    if kind == "integer":
        return next(leaves)
    if kind == "tensor":
        known.append(next(leaves))
        return known[-1]
    index = len(known)
    known.append(None)
    node: Any
    if kind in _LISTS:
        node = kind([_build(each, leaves, known) for each in spec[1:]])
    elif kind is dict:
        node = {name: _build(each, leaves, known) for name, each in spec[1:]}
    else:
        node = object.__new__(spec[1])
        known[index] = node
        for name, each in spec[2:]:
            node.__dict__[name] = _build(each, leaves, known)
    known[index] = node
    return node


def compiled_flatten(spec: TreeSpec, leaves: Sequence[Any]) -> Callable[[object], list[Any] | None]:
    """Generates a function that flattens objects of this specification several times as fast; None for others.

    leaves: of one such object; tensors must have the same dtype and rank, and be contiguous where these are.
    """
    lines = ["def flatten(tree):", "    try:"]
    context: dict[str, Any] = {}
    found: list[str] = []
    known: list[str] = []
    _emit_checks(spec, "tree", lines, context, found, known)
    for name, leaf in zip(found, leaves, strict=False):
        if isinstance(leaf, Tensor):
            context[f"{name}_type"] = leaf.dtype
            dense = f" or not {name}.is_contiguous()" if leaf.is_contiguous() else ""
            differs = f"{name}.dtype is not {name}_type or {name}.ndim != {leaf.ndim}"
            lines.append(f"        if {differs}{dense}: return None")
    lines += [f"        return [{', '.join(found)}]", "    except (AttributeError, KeyError):", "        return None"]
    exec("\n".join(lines), context)
    function: Callable[[object], list[Any] | None] = context["flatten"]
    return function


def _emit_checks(
    spec: TreeSpec, name: str, lines: list[str], context: dict[str, Any], found: list[str], known: list[str]
) -> None:
    """Appends lines that check the variable of this name against a specification, and the names of its leaves."""
    kind = spec[0]

    def refuse(condition: str) -> None:
        lines.append(f"        if {condition}: return None")

    def descend(each: TreeSpec, expression: str) -> None:
        context["count"] = context.get("count", 0) + 1
        inner = f"v{context['count']}"
        lines.append(f"        {inner} = {expression}")
        _emit_checks(each, inner, lines, context, found, known)

    if kind == "constant":
        context[f"{name}_kind"], context[f"{name}_constant"] = spec[1:]
        refuse(f"{name} is not {name}_constant and (type({name}) is not {name}_kind or {name} != {name}_constant)")
    elif kind == "integer":
        found.append(name)
        refuse(f"type({name}) is not int")
    elif kind == "tensor":
        found.append(name)
        known.append(name)
    elif kind == "shared":
        refuse(f"{name} is not {known[spec[1]]}")
    else:
        known.append(name)
        context[f"{name}_kind"] = spec[1] if kind == "object" else kind
        refuse(f"type({name}) is not {name}_kind")
        if kind in _LISTS:
            refuse(f"len({name}) != {len(spec) - 1}")
            for number, each in enumerate(spec[1:]):
                descend(each, f"{name}[{number}]")
        else:
            fields = spec[1:] if kind is dict else spec[2:]
            lines.append(f"        {name}_at = {name}" + ("" if kind is dict else ".__dict__"))
            refuse(f"len({name}_at) != {len(fields)}")
            for field, each in fields:
                descend(each, f"{name}_at[{field!r}]")


class FlattenedCache(Cache):
    """Stands in for the cache of a stack: a compiled step replaces leaves and never builds the objects around them."""

    def __init__(self, cache: Cache) -> None:
        self._cache: Cache | None = cache
        self.spec: TreeSpec = ()
        self.leaves: list[Any] = []
        self.encoder_spec: TreeSpec = ()
        self.encoder_leaves: list[Any] = []
        self.encoder_output: object = self
        """What cross-attention reads beside the cache; the cache itself before the first step."""
        self.last_step: Any = None
        """The compiled step that was taken last."""
        self.signature: int | None = None
        """The number of this combination of cache and encoder output among those seen; None before it was looked up."""

    @property
    def is_materialized(self) -> bool:
        """Whether the cache is held as objects, which may have changed since the last compiled step."""
        return self._cache is not None

    def materialize(self) -> Cache:
        """Returns the cache as the objects that its stack made, built from the leaves where necessary."""
        if self._cache is None:
            cache: Cache = unflatten(self.spec, self.leaves)
            self._cache = cache
        return self._cache

    def flatten(self) -> None:
        """Replaces the objects by their leaves."""
        if self._cache is not None:
            self.spec, self.leaves = flatten(self._cache)
            self._cache = self.signature = None

    def retype(self, spec: TreeSpec, size: int) -> None:
        """Takes another specification with this many leaves; the leaves stay where their number does."""
        self.spec, self.signature = spec, None
        if size != len(self.leaves):
            self.leaves = [None] * size

    def bind_encoder_output(self, encoder_output: object) -> None:
        """Flattens the encoder output that every step reads, unless it is the one that is bound already."""
        if encoder_output is not self.encoder_output:
            self.encoder_spec, self.encoder_leaves = flatten(encoder_output)
            self.encoder_output, self.signature = encoder_output, None

    def reorder(self, rows: Tensor) -> None:
        """Reorders the materialized cache."""
        self.materialize().reorder(rows)

    def reserve(self, tokens: int) -> None:
        """Reserves capacity in the materialized cache."""
        self.materialize().reserve(tokens)

    def share_across_beams(self) -> None:
        """Lets beams share rows of the materialized cache."""
        self.materialize().share_across_beams()

    def evict_except(self, tokens_BK: Tensor) -> None:
        """Evicts tokens from the materialized cache."""
        self.materialize().evict_except(tokens_BK)

    def tensors(self) -> Iterable[Tensor]:
        """Returns the tensors of the materialized cache."""
        return self.materialize().tensors()
