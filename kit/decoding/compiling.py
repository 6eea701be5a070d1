"""Compiles decoding steps of single texts, where going from one operation to the next takes longer than the operations.

The first answer takes up to a minute, in which torch writes code and compiles it; it keeps that for the next time.
Large batches can be compiled too, which gains less and takes as long again, so whoever wants it has to say so.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kit.contracts.stack import Memory
from kit.errors import KitError
from kit.layout import Layout
from kit.model.families import Model
from kit.model.side import Side
from kit.state import State
from kit.tokens import Tokens
from kit.watching import Watcher

FEW = 16
"""A single text is compiled up to so many tokens at once: the rows of a beam, or guesses that are checked."""
MANY = 16
"""From so many texts on a batch is compiled, where that is wanted. Between one and this many there would be more kinds
of step (keys lie by row or by column, attention is taken in one way or another) than are worth a minute each."""
BEGUN = 2
"""The first tokens are read as always: a compiler takes sizes of 0 and 1 for special."""


class NotCompiledWarning(UserWarning):
    """A model whose parts torch cannot compile, and which runs as it is."""


def compile_steps(model: Model, batches: bool = False) -> None:
    """Compile the steps of a model that will only write; what it computes stays the same to rounding.

    batches: those of large batches too.
    """
    side = getattr(model, "decoder", None)
    if not isinstance(side, Side):
        raise KitError("only a model that writes has steps to compile, and this one has no decoder")
    compiler = os.environ.get("CXX") or "g++ or clang++"
    if not any(shutil.which(name) for name in compiler.split(" or ")):
        raise KitError(f"compiling needs a C++ compiler, and there is no {compiler} here; install one, or do without")
    model.__dict__["advance"] = _Steps(model.advance, batches, next(side.parameters()).device.type == "cpu")


class _Steps:
    """A model's steps, compiled where that pays."""

    def __init__(self, plain: Callable[..., tuple[Tensor, Tensor]], batches: bool, cpu: bool) -> None:
        self.plain = plain
        self.batches = batches
        # The model stays as it is from now on, so that nobody has to look at its hundreds of parameters at every step.
        unchanged = torch.compiler.skip_guard_on_all_nn_modules_unsafe
        own = _own_code(lambda *given: plain(*given))
        self.quick: Callable[..., tuple[Tensor, Tensor]] = torch.compile(
            own, fullgraph=True, dynamic=True, options={"cpp_wrapper": cpu, "guard_filter_fn": unchanged}
        )

    def __call__(
        self,
        decoder: Side,
        tokens: Tokens,
        layout: Layout,
        memory: Memory | None,
        state: State,
        watcher: Watcher | None,
    ) -> tuple[Tensor, Tensor]:
        if watcher is not None or not self._pays(tokens) or _read(layout) < BEGUN:
            return self.plain(decoder, tokens, layout, memory, state, watcher)
        state.reserve(tokens.ids.shape[1])
        try:
            return self.quick(decoder, tokens, layout, memory, state, None)
        except torch._dynamo.exc.FailOnRecompileLimitHit:
            # One more kind of step than torch keeps; those that it has stay compiled.
            return self.plain(decoder, tokens, layout, memory, state, None)
        except (torch._dynamo.exc.TorchDynamoException, torch._inductor.exc.InductorError) as error:
            # Nothing was computed yet, and nothing remembered.
            reason = str(error).strip().splitlines()[0]
            warnings.warn(f"not compiled, and slower for it: {reason}", NotCompiledWarning, stacklevel=2)
            self.quick = self.plain
            return self.plain(decoder, tokens, layout, memory, state, None)

    def _pays(self, tokens: Tokens) -> bool:
        texts, length = tokens.ids.shape
        return length <= FEW if texts == 1 else self.batches and texts >= MANY


def _read(layout: Layout) -> int:
    """How many tokens every text has read."""
    return int(layout.offset.min() if isinstance(layout.offset, Tensor) else layout.offset)


def _own_code(function: Any) -> Any:
    """The same function with code of its own: what is compiled is kept by code, and models must not share it.

    For the same reason a step has to be one graph: what comes after a break would be kept by the code of the parts.
    """
    function.__code__ = function.__code__.replace(co_name=f"{function.__name__}_{id(function)}")
    return function
