"""Writing step by step: a model, what it has read so far, and the choice of rows that search needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kit.contracts.stack import Memory
from kit.layout import Layout
from kit.tokens import Tokens, last_of
from kit.watching import Watcher

if TYPE_CHECKING:
    from kit.model.families import Model
    from kit.model.side import Side


class Session:
    """One decoding of a batch of texts, with the state of every part."""

    def __init__(self, model: Model, decoder: Side, memory: Memory | None, watcher: Watcher | None) -> None:
        self.model = model
        self.decoder = decoder
        self.memory = memory
        self.watcher = watcher
        self.state = decoder.stack.start()
        self.read: Layout | None = None
        self.vectors: Tensor | None = None
        """What the last layer made of the tokens of the last step, [B, L, D]."""

    @property
    def rows(self) -> int:
        """How many texts are being written; 1 where nothing says so yet."""
        if self.memory is not None:
            return self.memory.layout.rows
        return 1 if self.read is None else self.read.rows

    @property
    def device(self) -> torch.device:
        """Where tokens are wanted."""
        return next(self.decoder.parameters()).device

    def step(self, tokens: Tokens | Tensor, last: bool = False) -> Tensor:
        """Read these tokens [B, L] after those read before; returns scores of the token after each, [B, L, V].

        last: only of the token after the last real one of each row, [B, 1, V].
        """
        tokens = Tokens.of(tokens)
        layout = Layout.of(tokens, self.read)
        self.read = layout if self.read is None else self.read.join(layout)
        x = self.vectors = self.decoder(tokens, layout, self.memory, self.state, self.watcher)
        if last and layout.length > 1:
            x = last_of(x, layout.valid)[:, None]
            layout = Layout((layout.rows, 1), layout.device)
        return self.model.score(x, layout, self.decoder.embedding)

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order; a row may be chosen several times (beams) or dropped (finished)."""
        self.state.select(rows)
        self.read = None if self.read is None else self.read.select(rows)
        self.memory = None if self.memory is None else self.memory.select(rows)

    @property
    def bytes(self) -> int:
        """How much memory the state takes."""
        return self.state.bytes
