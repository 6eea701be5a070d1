"""One side of a model: token ids to vectors, and the stack that works on them."""

from __future__ import annotations

from torch import Tensor, nn

from kit.contracts.embedding import Embedding
from kit.contracts.norm import Norm
from kit.contracts.stack import Memory, Stack
from kit.dropout import Dropout
from kit.layout import Layout
from kit.model.shaping import Shaping
from kit.state import State
from kit.tokens import Tokens
from kit.watching import Watcher


class Side(nn.Module):
    """An encoder or a decoder with its embedding."""

    def __init__(self, embedding: Embedding, stack: Stack, norm: Norm | None, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.stack = stack
        self.shaping: Shaping | None = None
        """The regularizers of the model, where it has any."""

    def forward(
        self,
        tokens: Tokens,
        layout: Layout,
        memory: Memory | None = None,
        state: State | None = None,
        watcher: Watcher | None = None,
    ) -> Tensor:
        """Vectors of the last layer, as `layout` carries them."""
        facts = {name: layout.unpad(tokens.facts[name]) for name in self.embedding.reads if name in tokens.facts}
        x = self.embedding.mark(self.embedding(layout.unpad(tokens.ids)), facts)
        x = self.stack.embed(x, layout.at_flat)
        if self.norm is not None:
            x = self.norm(x)
        if self.shaping is not None:
            watcher = self.shaping.watching(watcher)
        last: Tensor = self.stack(self.dropout(x), layout, memory, state, watcher)
        return last
