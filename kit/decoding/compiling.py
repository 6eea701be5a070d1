"""Compiles decoding steps of single texts, where going from one operation to the next takes longer than the operations.

The first answer takes some seconds for each kind of step, in which torch writes code and compiles it; it keeps that for
the next time. Large batches can be compiled too, which gains less, so whoever wants it has to say so.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kit.contracts.stack import Memory
from kit.decoding.leaves import NotLeaves, Shape, put_together, reader, take_apart
from kit.decoding.loose import Loose
from kit.decoding.program import Program
from kit.decoding.sources import Sources
from kit.errors import KitError
from kit.layout import Layout
from kit.model.families import EncoderDecoder, Model
from kit.model.side import Side
from kit.native.building import compiler
from kit.state import State
from kit.tokens import Tokens
from kit.watching import Watcher

FEW = 16
"""A single text is compiled up to so many tokens at once: the rows of a beam, or guesses that are checked."""
MANY = 16
"""From so many texts on a batch is compiled, where that is wanted: between one and this many, there are more kinds of
step than are worth it."""
ROOM = 16
"""For a single text, room is made for so many steps at once: it is little, and to make it means to copy."""
KINDS = 16
"""More kinds of step than these run as they are."""


class NotCompiledWarning(UserWarning):
    """A model whose parts torch cannot compile, and which runs as it is."""


def compile_steps(model: Model, batches: bool = False) -> None:
    """Compile the steps of a model that will only write; what it computes stays the same to rounding.

    batches: those of large batches too.
    """
    side = getattr(model, "decoder", None)
    if not isinstance(side, Side):
        raise KitError("only a model that writes has steps to compile, and this one has no decoder")
    if compiler() is None:
        wanted = os.environ.get("CXX") or "g++ or clang++"
        raise KitError(f"compiling needs a C++ compiler, and there is no {wanted} here; install one, or do without")
    start = side.stack.start
    side.stack.__dict__["start"] = lambda: Loose(start())
    cpu = next(side.parameters()).device.type == "cpu"
    model.__dict__["advance"] = _Steps(model.advance, batches, cpu)
    if cpu and isinstance(model, EncoderDecoder):
        model.__dict__["encode"] = Sources(model.encode)


class _Steps:
    """A model's steps, compiled where that pays."""

    def __init__(self, plain: Callable[..., tuple[Tensor, Tensor]], batches: bool, cpu: bool) -> None:
        self.plain = plain
        self.batches = batches
        self.cpu = cpu
        self.programs: dict[Any, list[_Step]] = {}
        self.kinds: dict[Any, int] = {}
        """Of memories and states, by number."""
        self.works = True
        self._compiling = threading.Lock()
        """Several threads may write with one model."""

    def __call__(
        self,
        decoder: Side,
        tokens: Tokens,
        layout: Layout,
        memory: Memory | None,
        state: State,
        watcher: Watcher | None,
    ) -> tuple[Tensor, Tensor]:
        given = decoder, tokens, layout, memory
        if watcher is None and self.works and isinstance(state, Loose) and self._pays(tokens):
            try:
                step, leaves = self._step(state, *given)
            except NotLeaves as error:
                self._give_up(f"{error} is part of its state")
                step = None
            if step is not None:
                return step(leaves, state)
        return self.plain(*given, state.whole(), watcher)

    def _step(
        self, state: Loose, decoder: Side, tokens: Tokens, layout: Layout, memory: Memory | None
    ) -> tuple[_Step | None, list[Any]]:
        """The compiled step for these, and what it is called with; None where there is none."""
        if not state.is_whole and state.kind is not None and state.memory is memory:
            # Nearly always as the step before.
            given = state.last.read((tokens, layout))
            if given is not None:
                leaves = [*given, *state.beside_leaves, *state.leaves]
                if state.last.program.fits(leaves):
                    return state.last, leaves
        outer, given = take_apart((tokens, layout))
        for _ in range(2):
            if state.is_whole:
                state.reserve(ROOM * tokens.ids.shape[1] if tokens.ids.shape[0] == 1 else tokens.ids.shape[1])
                state.apart()
            state.beside(memory)
            if state.kind is None:
                kind = state.shape, state.beside_shape, _kinds(state.beside_leaves), _kinds(state.leaves)
                with self._compiling:
                    state.kind = self.kinds.setdefault(kind, len(self.kinds))
            key = outer, _kinds(given), state.kind
            leaves = [*given, *state.beside_leaves, *state.leaves]
            if (step := self._known(key, leaves)) is not None:
                state.last = step
                return step, leaves
            state.whole()  # there may be no room left
        state.apart()
        with self._compiling:
            # Another thread may have been at it meanwhile.
            step = self._known(key, leaves) or self._new(key, decoder, (outer, state.beside_shape, state.shape), leaves)
        state.last = step
        return step, leaves

    def _known(self, key: Any, leaves: Sequence[Any]) -> _Step | None:
        return next((step for step in self.programs.get(key, ()) if step.holds(leaves)), None)

    def _new(self, key: Any, decoder: Side, shapes: tuple[Shape, Shape, Shape], leaves: Sequence[Any]) -> _Step | None:
        if not self.works or sum(map(len, self.programs.values())) >= KINDS:
            return None
        try:
            step = _Step(self.plain, decoder, shapes, leaves, self.cpu)
            if not step.holds(leaves):
                raise ValueError("a tensor is changed in place that its state holds in parts too")
        except Exception as error:
            # Whatever torch cannot follow; nothing was computed yet, and nothing remembered.
            self._give_up(str(error).strip().partition("\n")[0] or type(error).__name__)
            return None
        self.programs.setdefault(key, []).append(step)
        return step

    def _pays(self, tokens: Tokens) -> bool:
        texts, length = tokens.ids.shape
        few = length <= FEW if texts == 1 else self.batches and texts >= MANY
        return few and not torch.is_grad_enabled() and not torch.is_autocast_enabled(tokens.ids.device.type)

    def _give_up(self, reason: str) -> None:
        warnings.warn(f"not compiled, and slower for it: {reason}", NotCompiledWarning, stacklevel=2)
        self.works = False


class _Step:
    """One kind of step: a program, and what it does to the state."""

    def __init__(
        self, plain: Any, decoder: Side, shapes: tuple[Shape, Shape, Shape], leaves: Sequence[Any], cpu: bool
    ) -> None:
        outer, _, inner = shapes
        self.after: Shape = ()
        self.changed: list[int] = []
        self.size = 0
        self.alike = True
        """Whether tensors that took the place of others are of their types."""

        def step(*given: Any) -> list[Any]:
            left = iter(given)
            (tokens, layout), memory, state = (put_together(shape, left) for shape in shapes)
            before = take_apart(state)[1]
            found = plain(decoder, tokens, layout, memory, state, None)
            self.after, after = take_apart(state)
            # Where a state has come to hold more or less than before, all of it is new.
            kept = before if len(before) == len(after) else [None] * len(after)
            self.changed = [n for n, leaf in enumerate(after) if leaf is not kept[n]]
            self.size = len(after)
            self.alike = all(_type(after[n]) == _type(kept[n]) for n in self.changed)
            return [*found, *(after[n] for n in self.changed)]

        self.program = Program(step, leaves, same_numbers(leaves), cpu)
        self.same = self.after == inner and self.alike
        self.read = reader(outer, leaves)
        """Leaves of tokens and their layout, where they are of this kind."""

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether it may be taken: a trace knows nothing of tensors that lie over each other."""
        if not self.program.fits(leaves):
            return False
        lie = Counter(leaf.untyped_storage().data_ptr() for leaf in leaves if isinstance(leaf, Tensor))
        return all(lie[leaves[place].untyped_storage().data_ptr()] == 1 for place in self.program.changed)

    def __call__(self, leaves: Sequence[Any], state: Loose) -> tuple[Tensor, Tensor]:
        """Vectors of the last layer and scores; the state is what it is after the step."""
        x, scores, *changed = self.program(leaves)
        if not self.same:
            state.become(self.after, self.size)
        for place, leaf in zip(self.changed, changed, strict=True):
            state.leaves[place] = leaf
        return x, scores


def same_numbers(leaves: Sequence[Any]) -> list[int]:
    """Of each leaf the place of the first with the same number: how many tokens were read is told by every layer."""
    first: dict[int, int] = {}
    return [place if isinstance(leaf, Tensor) else first.setdefault(leaf, place) for place, leaf in enumerate(leaves)]


def _type(leaf: Any) -> Any:
    return (leaf.dtype, leaf.ndim) if isinstance(leaf, Tensor) else None


def _kinds(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """What a compiler takes for special: types, how tensors lie, and sizes and numbers of 0 and 1."""
    return tuple(_kind(leaf) for leaf in leaves)


def _kind(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return min(leaf, 2)
    strides = leaf.stride()
    order = tuple(sorted(range(len(strides)), key=strides.__getitem__))
    return leaf.dtype, order, tuple(min(size, 2) for size in leaf.shape)
