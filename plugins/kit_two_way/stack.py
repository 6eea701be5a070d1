"""Bidirectional LSTM language model, a forward and a backward LSTM that exclude the token itself (Peters et al. 2018).

The output at a token depends on earlier and later tokens only, so that it can predict the token. Both directions share
the embedding and are summed at the end; ELMo keeps two losses instead.
Shapes: B batch, L length, D model width, H hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import (
    AttentionObserver,
    BatchLayout,
    BuildContext,
    Cache,
    Dims,
    EncoderOutput,
    NoCache,
    Options,
    Problem,
    Stack,
    drop,
)


class TwoWayOptions(Options):
    """Forward and backward LSTM, each shifted by one token."""

    use: Literal["two_way"] = "two_way"
    depth: PositiveInt = Field(default=1, le=100)
    """Layers per direction."""
    hidden: PositiveInt | None = None
    """Hidden size; left out, the model's width."""


class TwoWayStack(Stack):
    """A bidirectional LSTM language model, for encoders."""

    options_type = TwoWayOptions
    options: TwoWayOptions
    reads_memory = False

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        hidden = options.hidden or dims.width
        dropout = dims.dropout if options.depth > 1 else 0.0
        self.forth, self.back = (
            nn.LSTM(dims.width, hidden, options.depth, batch_first=True, dropout=dropout) for _ in range(2)
        )
        self.from_left, self.from_right = nn.Linear(hidden, dims.width), nn.Linear(hidden, dims.width)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The stack must not be causal, because this one is bidirectional."""
        if build_context.causal:
            yield build_context.problem(
                f"the {build_context.stack} writes from left to right, and two_way reads what is not yet written",
                "use",
                hint="take lstm here, or make the model an encoder",
            )
        yield from super().check(options, dims, build_context)

    def forward(
        self,
        x: Tensor,
        layout: BatchLayout,
        memory: EncoderOutput | None = None,
        state: Cache | None = None,
        observer: AttentionObserver | None = None,
    ) -> Tensor:
        """x: [..., D] in the given layout; the same shape."""
        x_BLD = layout.pad(x)
        first_BL, lengths_B1 = _left_align(layout)
        read_BLD = _gather(x_BLD, first_BL)
        backward_BL = _reversed_index(lengths_B1, layout.length)
        left_BLH = _shift(self.forth(read_BLD)[0])
        right_BLH = _gather(_shift(self.back(_gather(read_BLD, backward_BL))[0]), backward_BL)
        joined_BLD = self.from_left(left_BLH) + self.from_right(right_BLH)
        given_BLD = joined_BLD if first_BL is None else _gather(joined_BLD, first_BL.argsort(1))
        return layout.unpad(drop(given_BLD, self.dims.dropout, self.training))

    def start(self) -> Cache:
        """No cache: it does not decode incrementally."""
        return NoCache()


def _left_align(layout: BatchLayout) -> tuple[Tensor | None, Tensor]:
    """Indices of the tokens, real ones first [B, L], and sequence lengths [B, 1]."""
    if layout.padding_mask is None:
        return None, torch.full((layout.rows, 1), layout.length, device=layout.device)
    return (~layout.padding_mask).to(torch.uint8).argsort(dim=1, stable=True), layout.padding_mask.sum(1, keepdim=True)


def _reversed_index(lengths_B1: Tensor, length: int) -> Tensor:
    """Indices that reverse the real tokens of each row and leave padding alone, their own inverse: [B, L]."""
    index_L = torch.arange(length, device=lengths_B1.device)
    return torch.where(index_L < lengths_B1, lengths_B1 - 1 - index_L, index_L)


def _gather(x_BLD: Tensor, index_BL: Tensor | None) -> Tensor:
    if index_BL is None:
        return x_BLD
    return x_BLD.gather(1, index_BL[:, :, None].expand(-1, -1, x_BLD.shape[-1]))


def _shift(x_BLH: Tensor) -> Tensor:
    """The previous token's state, zeros at the first: [B, L, H]."""
    return torch.cat([torch.zeros_like(x_BLH[:, :1]), x_BLH[:, :-1]], 1)
