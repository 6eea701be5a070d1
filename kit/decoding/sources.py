"""Compiles how a single source is read, which for a small model takes as long as writing several tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kit.contracts.stack import Memory
from kit.decoding.leaves import NotLeaves, Shape, put_together, take_apart
from kit.decoding.program import Program
from kit.tokens import Tokens
from kit.watching import Watcher

SHORT = 256
"""Sources up to so many tokens are compiled; for longer ones the way between operations is short beside them."""
KINDS = 4
"""More kinds of source than these are read as always: of one token, of several, of such with facts."""


class Sources:
    """A model's encoding, compiled for single sources."""

    def __init__(self, plain: Callable[..., Memory]) -> None:
        self.plain = plain
        self.readings: dict[Any, _Reading | None] = {}

    def __call__(self, source: Tokens | Tensor, packed: bool = False, watcher: Watcher | None = None) -> Memory:
        """As `EncoderDecoder.encode`."""
        tokens = Tokens.of(source)
        texts, length = tokens.ids.shape
        plain = watcher is not None or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu")
        if not plain and texts == 1 and 0 < length <= SHORT:
            try:
                shape, leaves = take_apart(tokens)
            except NotLeaves:  # facts of a kind of their own
                return self.plain(source, packed, watcher)
            key = shape, tuple((leaf.dtype, leaf.ndim) for leaf in leaves), packed, length == 1
            if key not in self.readings and len(self.readings) < KINDS:
                self.readings[key] = self._reading(shape, leaves, packed)
            reading = self.readings.get(key)
            if reading is not None and reading.program.fits(leaves):
                return reading(leaves)
        return self.plain(source, packed, watcher)

    def _reading(self, shape: Shape, leaves: Sequence[Tensor], packed: bool) -> _Reading | None:
        try:
            return _Reading(self.plain, shape, leaves, packed)
        except Exception:  # whatever torch cannot follow; such a source is read as always
            return None


class _Reading:
    """One kind of source."""

    def __init__(self, plain: Callable[..., Memory], shape: Shape, leaves: Sequence[Tensor], packed: bool) -> None:
        self.shape: Shape = ()

        def read(*given: Any) -> list[Any]:
            self.shape, found = take_apart(plain(put_together(shape, given), packed, None))
            return found

        self.program = Program(read, leaves, list(range(len(leaves))), cpu=True)

    def __call__(self, leaves: Sequence[Tensor]) -> Memory:
        """What the encoder made of it."""
        memory: Memory = put_together(self.shape, self.program(leaves))
        return memory
