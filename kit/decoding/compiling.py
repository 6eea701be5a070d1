"""Compiles a decoding step for a few rows, where going from one operation to the next takes longer than the operations.

The first answer takes up to a minute, in which torch writes code and compiles it; it keeps that for the next time.
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
from kit.matrices import prefers_onednn
from kit.model.families import Model
from kit.model.side import Side
from kit.state import State
from kit.tokens import Tokens
from kit.watching import Watcher

FEW = 8
"""With more rows than this the operations themselves take most of the time. Where oneDNN multiplies, so they do with
more than one: its way of storing matrices, which no compiler knows, gains more than compiling does."""
BEGUN = 2
"""The first tokens are read as always: a compiler takes sizes of 0 and 1 for special."""


class NotCompiledWarning(UserWarning):
    """A model whose parts torch cannot compile, and which runs as it is."""


def compile_steps(model: Model) -> None:
    """Compile the steps of a model that will only write; what it computes stays the same to rounding."""
    side = getattr(model, "decoder", None)
    if not isinstance(side, Side):
        raise KitError("only a model that writes has steps to compile, and this one has no decoder")
    compiler = os.environ.get("CXX") or "g++ or clang++"
    if not any(shutil.which(name) for name in compiler.split(" or ")):
        raise KitError(f"compiling needs a C++ compiler, and there is no {compiler} here; install one, or do without")
    model.__dict__["advance"] = _Steps(model.advance, cpu=next(side.parameters()).device.type == "cpu")


class _Steps:
    """A model's steps, compiled where that pays."""

    def __init__(self, plain: Callable[..., tuple[Tensor, Tensor]], cpu: bool) -> None:
        self.plain = plain
        self.few = 1 if cpu and prefers_onednn() else FEW
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
        before = int(layout.offset.min() if isinstance(layout.offset, Tensor) else layout.offset)
        if watcher is not None or tokens.ids.numel() > self.few or before < BEGUN:
            return self.plain(decoder, tokens, layout, memory, state, watcher)
        state.reserve(tokens.ids.shape[1])
        try:
            return self.quick(decoder, tokens, layout, memory, state, None)
        except (torch._dynamo.exc.TorchDynamoException, torch._inductor.exc.InductorError) as error:
            # Nothing was computed yet, and nothing remembered.
            reason = str(error).strip().splitlines()[0]
            warnings.warn(f"not compiled, and slower for it: {reason}", NotCompiledWarning, stacklevel=2)
            self.quick = self.plain
            return self.plain(decoder, tokens, layout, memory, state, None)


def _own_code(function: Any) -> Any:
    """The same function with code of its own: what is compiled is kept by code, and models must not share it.

    For the same reason a step has to be one graph: what comes after a break would be kept by the code of the parts.
    """
    function.__code__ = function.__code__.replace(co_name=f"{function.__name__}_{id(function)}")
    return function
