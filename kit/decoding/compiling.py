"""Compiles a decoding step for a few rows, where going from one operation to the next takes longer than the operations.

The first answer takes up to a minute, in which torch writes code and compiles it; it keeps that for the next time.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable

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

FEW = 8
"""With more rows than this the operations themselves take most of the time."""
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
    side.__dict__["forward"] = _Steps(side.forward, cpp_wrapper=next(side.parameters()).device.type == "cpu")


class _Steps:
    """A side's forward pass, compiled where that pays."""

    def __init__(self, plain: Callable[..., Tensor], cpp_wrapper: bool) -> None:
        self.plain = plain
        self.quick = torch.compile(plain, dynamic=True, options={"cpp_wrapper": cpp_wrapper})

    def __call__(
        self,
        tokens: Tokens,
        layout: Layout,
        memory: Memory | None = None,
        state: State | None = None,
        watcher: Watcher | None = None,
    ) -> Tensor:
        before = int(layout.offset.min() if isinstance(layout.offset, Tensor) else layout.offset)
        if state is None or watcher is not None or tokens.ids.numel() > FEW or before < BEGUN:
            return self.plain(tokens, layout, memory, state, watcher)
        state.reserve(tokens.ids.shape[1])
        try:
            return self.quick(tokens, layout, memory, state)
        except (torch._dynamo.exc.TorchDynamoException, torch._inductor.exc.InductorError) as error:
            # Nothing was computed yet, and nothing remembered.
            reason = str(error).strip().splitlines()[0]
            warnings.warn(f"not compiled, and slower for it: {reason}", NotCompiledWarning, stacklevel=2)
            self.quick = self.plain
            return self.plain(tokens, layout, memory, state)
