"""Hidden numbers that look at their neighbours: the Mix-FFN of SegFormer (Xie et al. 2021), along a text.

Shapes: B rows, L tokens, N hidden numbers, S tokens with what is before and after.
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

from kit import Dims, Dropout, Feedforward, HiddenOptions, Layout, Problem, Scope, Site, State, TensorState


class ConvOptions(HiddenOptions):
    """Up, a depthwise convolution along the text, GELU, down."""

    use: Literal["conv"] = "conv"
    kernel: PositiveInt = 3
    """How many tokens each one looks at, itself included: back in a decoder, as many to each side elsewhere."""


class ConvFeedforward(Feedforward):
    """Each hidden number is a weighted sum over near tokens; padding and the text's ends count as zero."""

    options_type = ConvOptions
    options: ConvOptions
    mixes_tokens = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        hidden = options.hidden_width(dims.width)
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
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """A kernel that looks to both sides has a middle, and none is longer than the longest text."""
        if not site.causal and options.kernel % 2 == 0:
            yield site.problem(
                f"the {site.stack} looks to both sides, and a kernel of {options.kernel} has no middle",
                "kernel",
                hint=f"take {options.kernel - 1} or {options.kernel + 1}",
            )
        if options.kernel > dims.length:
            yield site.problem(
                f"the kernel has {options.kernel} tokens and the longest text {dims.length}",
                "kernel",
                hint="take a smaller kernel",
            )

    def forward(self, x: Tensor, scope: Scope, state: State | None = None) -> Tensor:
        """Up and down by token, the convolution by row."""
        layout = scope.queries
        hidden_BLN = layout.pad(self.up(x))
        documents_BL = None
        if scope.mask is not None and "document" in scope.mask.needs:
            documents_BL = layout.facts["document"]
        if layout.valid is not None:
            hidden_BLN = hidden_BLN.masked_fill(~layout.valid[..., None], 0.0)
        if layout.right_padded:
            mixed_BLN = self._convolve(hidden_BLN, documents_BL, layout, state)
        else:
            # Neighbours are the real tokens before and after, wherever padding stands: real ones first, then back.
            assert layout.valid is not None
            order_BL = (~layout.valid).int().argsort(dim=1, stable=True)
            first_BLN = hidden_BLN.gather(1, order_BL[..., None].expand_as(hidden_BLN))
            documents_BL = None if documents_BL is None else documents_BL.gather(1, order_BL)
            mixed_BLN = self._convolve(first_BLN, documents_BL, layout, state)
            mixed_BLN = mixed_BLN.gather(1, order_BL.argsort(1)[..., None].expand_as(mixed_BLN))
        out: Tensor = self.down(self.dropout(F.gelu(layout.unpad(mixed_BLN))))
        return out

    def start(self) -> State:
        """The last hidden vectors, and their documents, before what is new."""
        return TensorState()

    def _convolve(self, x_BLN: Tensor, documents_BL: Tensor | None, layout: Layout, state: State | None) -> Tensor:
        """x: in every row real tokens first, then zeros."""
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

    def _extend(self, name: str, x_BLN: Tensor, layout: Layout, state: State | None) -> Tensor:
        """What came before (at the start of a text, zeros), x, and zeros; the newest real tokens are remembered."""
        before = self.options.kernel - 1 if self.site.causal else self.options.kernel // 2
        rows, length, size = x_BLN.shape
        joined = x_BLN.new_zeros(rows, before, size)
        if isinstance(state, TensorState) and name in state.values:
            joined = state.values[name]
        joined = torch.cat([joined, x_BLN], 1)
        if isinstance(state, TensorState):
            start = length if layout.valid is None else layout.valid.sum(1, keepdim=True)
            at = (torch.arange(before, device=x_BLN.device) + start).expand(rows, before)
            state.values[name] = joined.gather(1, at[..., None].expand(rows, before, size))
        return F.pad(joined, (0, 0, 0, self.options.kernel - 1 - before))
