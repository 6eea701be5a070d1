"""How the tokens of one side lie in memory: in padded rows or packed, and the way from one to the other.

Parts that treat each token by itself (norms, feed-forward layers, projections) work on the last axis and never ask
which form they see. A part that needs whole rows (attention, a convolution) calls `pad`, works, and calls `unpad`.

Shapes: B rows, L length, N real tokens, D anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from kit.heads import HeadPlaces
from kit.lazy import lazy
from kit.short import SHORT
from kit.tokens import Tokens


class _Spread(torch.autograd.Function):
    """Rows to distinct places among zeros; its gradient is a plain look-up, which index_add is not."""

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, index_N: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(index_N)
        return x_ND.new_zeros(size, *x_ND.shape[1:]).index_copy_(0, index_N, x_ND)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (index_N,) = ctx.saved_tensors
        return _Gather.apply(gradients[0], index_N), None, None  # type: ignore[no-untyped-call]


class _Gather(torch.autograd.Function):
    """Rows from distinct places; its gradient spreads them back."""

    @staticmethod
    def forward(ctx: Any, x_SD: Tensor, index_N: Tensor) -> Tensor:
        ctx.save_for_backward(index_N)
        ctx.size = x_SD.shape[0]
        return x_SD.index_select(0, index_N)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (index_N,) = ctx.saved_tensors
        return _Spread.apply(gradients[0], index_N, ctx.size), None  # type: ignore[no-untyped-call]


class Layout:
    """Where each token of one side stands, and which tokens are real."""

    def __init__(
        self,
        shape: tuple[int, int],
        device: torch.device,
        valid: Tensor | None = None,
        right_padded: bool = True,
        offset: int | Tensor = 0,
        facts: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.rows, self.length = shape
        self.device = device
        self.valid = valid
        self.right_padded = valid is None or right_padded
        self.offset = offset
        self.facts: Mapping[str, Tensor] = facts or {}
        self.index: Tensor | None = None
        self._heads: dict[tuple[int, ...], HeadPlaces] = {}
        self.reach: Tensor | None = None
        """[B, Q, K] of keys: which of them each of the newest Q tokens descends from; None where from all of its row.
        Rows of a search that share one row of the state have it."""

    @classmethod
    def of(cls, tokens: Tokens, after: Layout | None = None) -> Layout:
        """The layout of these tokens, standing after those that were read before."""
        valid = tokens.valid
        right_padded = tokens.right_padded
        if valid is not None and right_padded is None:
            # A look at the data is free on a CPU; elsewhere it would make the device wait, so the worst is assumed.
            right_padded = valid.device.type == "cpu" and not bool((valid[:, 1:] & ~valid[:, :-1]).any())
        rows, length = tokens.ids.shape
        offset = 0 if after is None else after.count
        return cls((rows, length), tokens.ids.device, valid, bool(right_padded), offset, tokens.facts)

    def packed(self) -> Layout:
        """The same tokens with padding left out of memory; itself where there is none."""
        if self.valid is None:
            return self
        result = Layout((self.rows, self.length), self.device, self.valid, self.right_padded, self.offset, self.facts)
        result.index = self.valid.reshape(-1).nonzero().squeeze(1)
        return result

    def padded(self) -> Layout:
        """The same tokens in padded rows; itself where they lie so."""
        if self.index is None:
            return self
        return Layout((self.rows, self.length), self.device, self.valid, self.right_padded, self.offset, self.facts)

    @property
    def is_packed(self) -> bool:
        """Whether tensors of this side are [N, D] instead of [B, L, D]."""
        return self.index is not None

    def pad(self, x: Tensor) -> Tensor:
        """Rows [B, L, D] of what may be packed; padding is zero."""
        if self.index is None:
            return x
        padded: Tensor = _Spread.apply(x, self.index, self.rows * self.length)  # type: ignore[no-untyped-call]
        return padded.view(self.rows, self.length, *x.shape[1:])

    def unpad(self, x_BLD: Tensor) -> Tensor:
        """What `pad` undoes: the form in which this side is carried."""
        if self.index is None:
            return x_BLD
        packed: Tensor = _Gather.apply(x_BLD.reshape(self.rows * self.length, *x_BLD.shape[2:]), self.index)  # type: ignore[no-untyped-call]
        return packed

    def to_heads(self, x: Tensor, *pieces: int) -> tuple[Tensor, ...]:
        """Queries, keys or values of so many heads each that lie side by side, as [B, H, L, E].

        What stands in padding is nobody's business: it may be anything.
        """
        if (places := self._head_places(pieces)) is not None:
            return places.spread(x)
        heads = sum(pieces)
        x_BLD = self.pad(x)
        split_BHLE = x_BLD.view(*x_BLD.shape[:2], heads, x.shape[-1] // heads).transpose(1, 2)
        return split_BHLE.split(pieces, 1)  # type: ignore[no-any-return]

    def from_heads(self, x_BHLE: Tensor) -> Tensor:
        """What heads gave, side by side, in the form in which this side is carried."""
        # Some kernels lay heads out side by side; then there is nothing to turn.
        places = None if x_BHLE.stride(2) > x_BHLE.stride(1) else self._head_places((x_BHLE.shape[1],))
        if places is not None:
            return places.gather(x_BHLE)
        return self.unpad(x_BHLE.transpose(1, 2).flatten(2))

    def _head_places(self, pieces: tuple[int, ...]) -> HeadPlaces | None:
        """For look-ups instead of copies: on a CPU, for short packed texts, whose attention takes heads one by one."""
        if self.index is None or self.index.device.type != "cpu" or self.length > SHORT:
            return None
        if torch.compiler.is_compiling() or self.index.shape[0] == 0:
            return None
        if pieces not in self._heads:
            self._heads[pieces] = HeadPlaces((self.rows, self.length), self.index, pieces)
        return self._heads[pieces]

    @lazy
    def starts(self) -> Tensor | None:
        """[B + 1]: which token each row begins with, and how many there are; None where padding lies between them."""
        if self.valid is None:
            return torch.arange(self.rows + 1, device=self.device) * self.length
        if self.index is None:
            return None
        return torch.nn.functional.pad(self.valid.sum(1).cumsum(0), (1, 0))

    def texts(self, keys: Layout) -> tuple[Tensor, Tensor] | None:
        """Where rows start, of these queries and of keys; None where they are long, lie otherwise, or see nothing."""
        starts, k_starts = self.starts, keys.starts
        if starts is None or k_starts is None or max(self.length, keys.length) > SHORT or self.rows != keys.rows:
            return None
        blind = (k_starts.diff() == 0) & (starts.diff() > 0)
        return None if bool(blind.any()) else (starts, k_starts)

    @lazy
    def order(self) -> Tensor:
        """[B or 1, L]: how many real tokens stand before each one; masks compare these."""
        if self.valid is None or self.right_padded:
            steps = torch.arange(self.length, device=self.device)[None]
            return steps + self.offset
        return (self.valid.cumsum(1) - 1).clamp(min=0) + self.offset

    @lazy
    def at(self) -> Tensor:
        """[B or 1, L]: the position of each token; its order, unless the batch says otherwise."""
        return self.facts.get("position", self.order)

    @property
    def at_flat(self) -> Tensor:
        """Positions in the form in which this side is carried: [N] or [B or 1, L]."""
        if self.index is None:
            return self.at
        return self.at.expand(self.rows, self.length).reshape(-1).index_select(0, self.index)

    @lazy
    def count(self) -> int | Tensor:
        """How many real tokens there are so far: one number, or [B, 1] where rows differ."""
        if self.valid is None:
            return self.offset + self.length
        return self.valid.sum(1, keepdim=True) + self.offset

    def join(self, new: Layout) -> Layout:
        """These tokens followed by new ones, as keys for the queries of the new."""
        valid = None
        if self.valid is not None or new.valid is not None:
            valid = torch.cat([self._valid_or_ones(), new._valid_or_ones()], 1)
        facts = {name: torch.cat([self.facts[name], new.facts[name]], 1) for name in new.facts if name in self.facts}
        right_padded = valid is None or (self.valid is None and new.right_padded)
        joined = Layout((self.rows, self.length + new.length), self.device, valid, right_padded, 0, facts)
        if isinstance(self.offset, Tensor) or isinstance(new.offset, Tensor):
            joined.order = torch.cat([self.order.expand(self.rows, -1), new.order.expand(self.rows, -1)], 1)
        joined.reach = new.reach
        return joined

    def select(self, rows: Tensor) -> Layout:
        """The layout of some of these rows, in a new order."""
        chosen = Layout(
            (rows.shape[0], self.length),
            self.device,
            None if self.valid is None else self.valid[rows],
            self.right_padded,
            self.offset[rows] if isinstance(self.offset, Tensor) else self.offset,
            {name: fact[rows] for name, fact in self.facts.items()},
        )
        if "order" in self.__dict__:
            chosen.order = self.order[rows] if self.order.shape[0] > 1 else self.order
        return chosen

    def keep_tokens(self, tokens_BK: Tensor) -> Layout:
        """The layout of these tokens of each row alone, as keys; it no longer knows how many were read."""
        valid = None if self.valid is None else self.valid.gather(1, tokens_BK)
        facts = {name: fact.gather(1, tokens_BK) for name, fact in self.facts.items()}
        kept = Layout((self.rows, tokens_BK.shape[1]), self.device, valid, False, self.offset, facts)
        kept.order = self.order.expand(self.rows, -1).gather(1, tokens_BK)
        return kept

    def _valid_or_ones(self) -> Tensor:
        if self.valid is not None:
            return self.valid
        return torch.ones(self.rows, self.length, dtype=torch.bool, device=self.device)
