"""Runs an attention in one setting: over whole texts, step by step, watched or not.

Shapes: B rows, Q queries, K keys of a memory, D width, M width of a memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kit.contracts.attention import Attention
from kit.laws.batches import groups, layout_of, pieces, valid_of, vectors
from kit.laws.setting import MEMORY, WIDTH, Setting
from kit.laws.subject import Subject
from kit.layout import Layout
from kit.scope import Scope
from kit.state import State
from kit.watching import Watcher

SHORT = 7
LONG = 200
"""Beyond what small texts are a special case of."""


@dataclass
class Texts:
    """What an attention is given: queries with their padding and, where it looks at one, a memory with its own."""

    x: Tensor
    valid: Tensor | None = None
    memory: Tensor | None = None
    memory_valid: Tensor | None = None

    def rows(self, index: Tensor) -> Texts:
        """Some of the rows."""
        chosen = [None if each is None else each[index] for each in (self.valid, self.memory, self.memory_valid)]
        return Texts(self.x[index], *chosen)

    def real(self, out: Tensor) -> Tensor:
        """What came out for real queries: [N, D]."""
        return out.flatten(0, 1) if self.valid is None else out[self.valid]


class Attending:
    """An attention in a setting."""

    def __init__(self, subject: Subject, setting: Setting, **build: Any) -> None:
        component = subject.component
        assert issubclass(component, Attention)
        self.setting = setting
        self.part: Attention = subject.build(setting, **build)
        self.position = setting.position(self.part.dims, component)

    def texts(
        self, lengths: Sequence[int], side: Any = "right", seed: int = 0, memory: Sequence[int] | None = None
    ) -> Texts:
        """Random texts of these lengths, and as many memories where it looks at one."""
        valid = valid_of(lengths, side)
        x = vectors(len(lengths), max([1, *lengths]), WIDTH, seed=seed)
        if not self.setting.memory:
            return Texts(x, valid)
        sizes = memory if memory is not None else [5 + 2 * (row % 2) for row in range(len(lengths))]
        kept = vectors(len(lengths), max(sizes), MEMORY, seed=seed + 100)
        return Texts(x, valid, kept, valid_of(sizes, side))

    def scope(self, texts: Texts, watcher: Watcher | None = None, packed: bool = False) -> Scope:
        """Who may see whom."""
        queries = _layout(texts.x, texts.valid, packed, self.facts(texts.x, texts.valid))
        keys = queries if texts.memory is None else _layout(texts.memory, texts.memory_valid, packed)
        return Scope(queries, keys, self.setting.mask, self.position, watcher)

    def facts(self, x: Tensor, valid: Tensor | None) -> dict[str, Tensor]:
        """What the mask wants to be told."""
        mask = self.setting.mask
        return groups(valid, x.shape[0], x.shape[1]) if mask is not None and mask.needs else {}

    def __call__(self, texts: Texts, watcher: Watcher | None = None, packed: bool = False) -> Tensor:
        """All at once: [B, Q, D], or [N, D] packed."""
        scope = self.scope(texts, watcher, packed)
        memory = None if texts.memory is None else scope.keys.unpad(texts.memory)
        out: Tensor = self.part(scope.queries.unpad(texts.x), memory, scope)
        return out

    def in_steps(self, texts: Texts, sizes: Sequence[int], watcher: Watcher | None = None) -> Tensor:
        """Piece by piece, with a state: [B, Q, D]."""
        run = Steps(self, texts)
        return torch.cat(
            [
                run.step(texts.x[:, piece], _cut(texts.valid, piece), watcher)
                for piece in pieces(texts.x.shape[1], sizes)
            ],
            1,
        )


class Steps:
    """One text after the other token, as a decoder reads them."""

    def __init__(self, attending: Attending, texts: Texts) -> None:
        self.attending = attending
        self.state: State = attending.part.start()
        self.read: Layout | None = None
        self.memory = texts.memory
        self.memory_layout = None if texts.memory is None else _layout(texts.memory, texts.memory_valid, False)

    def step(self, x: Tensor, valid: Tensor | None = None, watcher: Watcher | None = None) -> Tensor:
        """Some more tokens."""
        queries = layout_of(x.shape[0], x.shape[1], valid, self.read, self._facts(x, valid))
        self.read = queries if self.read is None else self.read.join(queries)
        keys = self.read if self.memory_layout is None else self.memory_layout
        scope = Scope(queries, keys, self.attending.setting.mask, self.attending.position, watcher)
        out: Tensor = self.attending.part(x, self.memory, scope, self.state)
        return out

    def _facts(self, x: Tensor, valid: Tensor | None) -> dict[str, Tensor]:
        """Of the new tokens, whose place counts on from those before."""
        if self.read is None:
            return self.attending.facts(x, valid)
        ones = [torch.ones(x.shape[0], each, dtype=torch.bool) for each in (self.read.length, x.shape[1])]
        before = ones[0] if self.read.valid is None else self.read.valid
        real = torch.cat([before, ones[1] if valid is None else valid], 1)
        return {name: fact[:, self.read.length :] for name, fact in self.attending.facts(real, real).items()}

    def select(self, rows: Tensor) -> None:
        """Keep these rows."""
        self.state.select(rows)
        self.read = None if self.read is None else self.read.select(rows)
        if self.memory is not None and self.memory_layout is not None:
            self.memory, self.memory_layout = self.memory[rows], self.memory_layout.select(rows)


def _layout(x: Tensor, valid: Tensor | None, packed: bool, facts: Mapping[str, Tensor] | None = None) -> Layout:
    layout = layout_of(x.shape[0], x.shape[1], valid, facts=facts)
    return layout.packed() if packed else layout


def _cut(valid: Tensor | None, piece: slice) -> Tensor | None:
    return None if valid is None else valid[:, piece]
