"""Feed-forward layer with a depthwise convolution over tokens: the Mix-FFN of SegFormer (Xie et al. 2021) in 1D.

Shapes: B batch, L tokens, N hidden units, S tokens with context before and after.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import (
    AttentionContext,
    BatchLayout,
    BuildContext,
    Cache,
    Dims,
    Dropout,
    Feedforward,
    MLPOptions,
    Problem,
    RecurrentCache,
)


class ConvOptions(MLPOptions):
    """Mix-FFN: up projection, depthwise convolution over tokens, GELU, down projection."""

    use: Literal["conv"] = "conv"
    kernel: PositiveInt = 3
    """Kernel size in tokens: causal in a decoder, centred elsewhere."""


class ConvFeedforward(Feedforward):
    """Convolves each hidden unit over tokens; padding and the ends of a sequence are zeros."""

    options_type = ConvOptions
    options: ConvOptions
    mixes_tokens = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        hidden = options.ffn_dim(dims.width)
        self.up = nn.Linear(dims.width, hidden, options.bias)
        self.taps = nn.Parameter(torch.empty(hidden, options.kernel))
        self.down = nn.Linear(hidden, dims.width, options.bias)
        self.dropout = Dropout(options.dropout)
        nn.init.normal_(self.taps, std=options.kernel**-0.5)
        for linear in (self.up, self.down):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """A centred kernel must be odd, and none longer than the maximum length."""
        if not build_context.causal and options.kernel % 2 == 0:
            yield build_context.problem(
                f"the {build_context.stack} looks to both sides, and a kernel of {options.kernel} has no middle",
                "kernel",
                hint=f"take {options.kernel - 1} or {options.kernel + 1}",
            )
        if options.kernel > dims.length:
            yield build_context.problem(
                f"the kernel has {options.kernel} tokens and the longest sequence {dims.length}",
                "kernel",
                hint="take a smaller kernel",
            )

    def forward(self, x: Tensor, context: AttentionContext, state: Cache | None = None) -> Tensor:
        """Projections by token, the convolution by sequence: like x."""
        layout = context.queries
        hidden_BLN = layout.pad(self.up(x))
        documents_BL = None
        if context.mask is not None and "document" in context.mask.needs:
            documents_BL = layout.features["document"]
        if layout.padding_mask is not None:
            hidden_BLN = hidden_BLN.masked_fill(~layout.padding_mask[..., None], 0.0)
        if layout.right_padded:
            mixed_BLN = self._convolve(hidden_BLN, documents_BL, layout, state)
        else:
            # Neighbours are the real tokens before and after, wherever padding is: align left, convolve, restore.
            assert layout.padding_mask is not None
            order_BL = (~layout.padding_mask).int().argsort(dim=1, stable=True)
            first_BLN = hidden_BLN.gather(1, order_BL[..., None].expand_as(hidden_BLN))
            documents_BL = None if documents_BL is None else documents_BL.gather(1, order_BL)
            mixed_BLN = self._convolve(first_BLN, documents_BL, layout, state)
            mixed_BLN = mixed_BLN.gather(1, order_BL.argsort(1)[..., None].expand_as(mixed_BLN))
        out: Tensor = self.down(self.dropout(F.gelu(layout.unpad(mixed_BLN))))
        return out

    def start(self) -> Cache:
        """The last hidden vectors and their documents."""
        return RecurrentCache()

    def _convolve(self, x_BLN: Tensor, documents_BL: Tensor | None, layout: BatchLayout, state: Cache | None) -> Tensor:
        """x: [B, L, N], right-padded with zeros."""
        joined_BSN = self._extend("hidden", x_BLN, layout, state)
        length = x_BLN.shape[1]
        shifts = [joined_BSN[:, tap : tap + length] * self.taps[:, tap] for tap in range(self.options.kernel)]
        if documents_BL is not None:
            joined_BS = self._extend("document", documents_BL[..., None], layout, state).squeeze(-1)
            shifts = [
                shift.masked_fill((joined_BS[:, tap : tap + length] != documents_BL)[..., None], 0.0)
                for tap, shift in enumerate(shifts)
            ]
        return reduce(add, shifts)

    def _extend(self, name: str, x_BLN: Tensor, layout: BatchLayout, state: Cache | None) -> Tensor:
        """Cached context (zeros at first), x, and zeros on the right [B, S, N]; the newest real tokens are cached."""
        before = self.options.kernel - 1 if self.build_context.causal else self.options.kernel // 2
        rows, length, size = x_BLN.shape
        joined = x_BLN.new_zeros(rows, before, size)
        if isinstance(state, RecurrentCache) and name in state.values:
            joined = state.values[name]
        joined = torch.cat([joined, x_BLN], 1)
        if isinstance(state, RecurrentCache):
            start = length if layout.padding_mask is None else layout.padding_mask.sum(1, keepdim=True)
            at = (torch.arange(before, device=x_BLN.device) + start).expand(rows, before)
            state.values[name] = joined.gather(1, at[..., None].expand(rows, before, size))
        return F.pad(joined, (0, 0, 0, self.options.kernel - 1 - before))
