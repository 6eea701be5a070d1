"""Compiles decoding steps of single texts, where going from one operation to the next takes longer than the operations.

The first answer takes some seconds for each kind of step, in which torch writes code and compiles it; it keeps that for
the next time. Large batches can be compiled too, which gains less, so whoever wants it has to say so.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from kit.contracts.stack import Memory
from kit.decoding.leaves import NotLeaves, Shape, take_apart
from kit.decoding.loose import Loose
from kit.decoding.sources import Sources
from kit.decoding.step import Step
from kit.errors import KitError
from kit.layout import Layout
from kit.model.families import EncoderDecoder, Model
from kit.model.side import Side
from kit.model.stretched import Stretched
from kit.native.building import compiler
from kit.state import State
from kit.tokens import Tokens
from kit.watching import Watcher

FEW = 16
"""A single text is compiled up to so many tokens at once: the rows of a beam, or guesses that are checked."""
MANY = 16
"""From so many texts on a batch is compiled, where that is wanted: between one and this many, there are more kinds of
step than are worth it."""
ROOM = 32
"""For a single text, room is made for so many steps at once: it is little, and to make it means to copy."""
KINDS = 16
"""More kinds of step than these run as they are."""
STATES = 1024
"""With more kinds of state than these, they would only take up memory."""


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
    steps = _Steps(model.advance, batches, cpu)
    model.__dict__.update(advance=steps, stretch=steps.stretch)
    if cpu and isinstance(model, EncoderDecoder):
        model.__dict__["encode"] = Sources(model.encode)


class _Steps:
    """A model's steps, compiled where that pays."""

    def __init__(self, plain: Callable[..., tuple[Tensor, Tensor]], batches: bool, cpu: bool) -> None:
        self.plain = plain
        self.batches = batches
        self.cpu = cpu
        self.programs: dict[Any, list[Step]] = {}
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
        if watcher is None and isinstance(state, Loose) and self._pays(tokens):
            step, leaves = self._found(state, *given)
            if step is not None:
                return step(leaves, state)
        return self.plain(*given, state.whole(), watcher)

    def stretch(
        self,
        decoder: Side,
        tokens: Tokens,
        layouts: Iterator[Layout],
        memory: Memory | None,
        state: State,
        never_N: Tensor,
        end: int,
    ) -> Stretched | None:
        """As `Model.stretch`."""
        if not isinstance(state, Loose) or not self._pays(tokens):
            return None
        first = next(layouts)
        step, _ = self._found(state, decoder, tokens, first, memory)
        if step is None or step.stretch is None:
            return None
        reads = (step.read((tokens, layout)) for layout in chain([first], layouts))
        return step.stretch.run(state, reads, never_N, end)

    def _found(self, state: Loose, *given: Any) -> tuple[Step | None, list[Any]]:
        """As `_step`; a state that cannot be taken apart ends all compiling."""
        try:
            return self._step(state, *given) if self.works else (None, [])
        except NotLeaves as error:
            self._give_up(f"{error} is part of its state")
            return None, []

    def _step(
        self, state: Loose, decoder: Side, tokens: Tokens, layout: Layout, memory: Memory | None
    ) -> tuple[Step | None, list[Any]]:
        """The compiled step for these, and what it is called with; None where there is none."""
        if not state.is_whole and state.kind is not None and state.memory is memory:
            # Nearly always as the step before.
            given = state.last.read((tokens, layout))
            if given is not None:
                leaves = [*given, *state.beside_leaves, *state.leaves]
                if state.last.fits(leaves):
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
                if len(self.kinds) > STATES:
                    self._give_up("its state is of another kind at every step")
                    return None, []
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

    def _known(self, key: Any, leaves: Sequence[Any]) -> Step | None:
        return next((step for step in self.programs.get(key, ()) if step.holds(leaves)), None)

    def _new(self, key: Any, decoder: Side, shapes: tuple[Shape, Shape, Shape], leaves: Sequence[Any]) -> Step | None:
        if not self.works or sum(map(len, self.programs.values())) >= KINDS:
            return None
        try:
            step = Step(self.plain, decoder, shapes, leaves, self.cpu)
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


def _kinds(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """What a compiler takes for special: types, how tensors lie, and sizes and numbers of 0 and 1."""
    return tuple(_kind(leaf) for leaf in leaves)


def _kind(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return min(leaf, 2)
    strides = leaf.stride()
    order = tuple(sorted(range(len(strides)), key=strides.__getitem__))
    return leaf.dtype, order, tuple(min(size, 2) for size in leaf.shape)
