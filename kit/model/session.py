"""Writing step by step: a model, what it has read so far, and the choice of rows that search needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kit.contracts.stack import Memory
from kit.layout import Layout
from kit.lazy import lazy
from kit.model.branches import Branches, grouped
from kit.model.stretched import Stretched
from kit.tokens import Tokens, last_of
from kit.watching import Watcher

if TYPE_CHECKING:
    from kit.model.families import Model
    from kit.model.side import Side


STRETCH = 16
"""Steps that are looked ahead at once."""


class Session:
    """One decoding of a batch of texts, with the state of every part."""

    def __init__(self, model: Model, decoder: Side, memory: Memory | None, watcher: Watcher | None) -> None:
        self.model = model
        self.decoder = decoder
        self.memory = memory
        self.watcher = watcher
        self.state = decoder.stack.start()
        self.read: Layout | None = None
        """What was read; once rows share a state, only whose rows those are."""
        self.branches: Branches | None = None
        """How rows share the state, once a search has several rows a text; None where each has its own."""
        self.vectors: Tensor | None = None
        """What the last layer made of the tokens of the last step, [B, L, D]."""

    @property
    def rows(self) -> int:
        """How many rows are being written; 1 where nothing says so yet."""
        width = 1 if self.branches is None else self.branches.width
        if self.memory is not None:
            return self.memory.layout.rows * width
        return 1 if self.read is None else self.read.rows * width

    @property
    def device(self) -> torch.device:
        """Where tokens are wanted."""
        return next(self.decoder.parameters()).device

    def step(self, tokens: Tokens | Tensor, last: bool = False) -> Tensor:
        """Read these tokens [B, L] after those read before; returns scores of the token after each, [B, L, V].

        last: only of the token after the last real one of each row, [B, 1, V].
        """
        tokens = Tokens.of(tokens)
        shape, valid = tokens.ids.shape, tokens.valid
        if self.branches is None:
            layout = Layout.of(tokens, self.read)
        else:
            tokens, layout = self.branches.fold(tokens)
        if self.read is None or self.branches is None:
            self.read = layout if self.read is None else self.read.join(layout)
        if not last or shape[1] == 1:
            x, scores = self.model.advance(self.decoder, tokens, layout, self.memory, self.state, self.watcher)
            self.vectors = x.view(*shape, -1)
            return scores.view(*shape, -1)
        x = self.decoder(tokens, layout, self.memory, self.state.whole(), self.watcher)
        self.vectors = x = x.view(*shape, -1)
        x = last_of(x, valid)[:, None]
        return self.model.score(x, Layout((shape[0], 1), layout.device), self.decoder.embedding)

    def stretch(self, token: Tensor, never_N: Tensor, end: int, most: int) -> Stretched | None:
        """Read a token [1, 1], take the likeliest that is not among `never_N`, read that, and so on, at most so often.

        After `end` nothing more is read. None, and nothing read, where steps have to be taken one by one.
        """
        if self.branches is not None or self.watcher is not None or self.read is None:
            return None
        tokens = Tokens.of(token)
        reads = [self.read]

        def layouts() -> Iterator[Layout]:
            for _ in range(min(most, STRETCH)):
                layout = Layout.of(tokens, reads[-1])
                reads.append(reads[-1].join(layout))
                yield layout

        found = self.model.stretch(self.decoder, tokens, layouts(), self.memory, self.state, never_N, end)
        if found is not None:
            self.read, self.vectors = reads[len(found.token_T)], found.vectors
        return found

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order; a row may be chosen several times (beams) or dropped (finished)."""
        if self.branches is None and self.can_branch and grouped(rows.tolist())[1] > 1:
            self.branches = Branches.start(self.rows, self.read, rows.device)
            self.state.share()
        chosen = rows if self.branches is None else self.branches.select(rows)
        if chosen is not None:
            self.state.select(chosen)
            self.read = None if self.read is None else self.read.select(chosen)
            self.memory = None if self.memory is None else self.memory.select(chosen)
        kept = None if self.branches is None else self.branches.forget()
        if kept is not None:
            self.state.keep_tokens(kept)

    @lazy
    def can_branch(self) -> bool:
        """Whether rows of one text can share its state; a watcher is shown each row by itself."""
        return self.watcher is None and self.decoder.stack.branches()

    @property
    def bytes(self) -> int:
        """How much memory the state takes."""
        return self.state.bytes
