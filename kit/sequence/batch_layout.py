"""Token batches and their layout: padded [B, L, D] or packed (varlen) [N, D], and conversion between them.

Parts that treat each token by itself (norms, feed-forward layers, projections) work on the last axis and never ask for
the layout. A part that needs whole rows (attention, a convolution) calls `pad`, works, and calls `unpad`.

Shapes: B rows, L length, N real tokens, D features, H heads, E head_dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor

from kit.kernels.attention import MAX_SEQ_LEN
from kit.kernels.devices import is_cpu
from kit.kernels.padding import PaddingIndex, should_index_heads

T = TypeVar("T")


class cached_property(Generic[T]):
    """A property that is computed once; without a lock, unlike functools', which torch.compile cannot trace.

    The value is stored in the instance under the property's name, so that it can also be set.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type | None = None) -> cached_property[T]: ...

    @overload
    def __get__(self, owner: object, kind: type | None = None) -> T: ...

    def __get__(self, owner: object | None, kind: type | None = None) -> cached_property[T] | T:
        if owner is None:
            return self
        value = self.compute(owner)
        owner.__dict__[self.name] = value
        return value

    def __set__(self, owner: object, value: T) -> None: ...


del cached_property.__set__  # for type checkers only: with it, Python would call __get__ at every access


@dataclass(frozen=True)
class TokenBatch:
    """Token ids of several sequences [B, L], padded to one length, with a padding mask and features of each token."""

    ids: Tensor
    """[B, L], integers."""
    padding_mask: Tensor | None = None
    """[B, L], true for real tokens; None if there is no padding."""
    features: Mapping[str, Tensor] = field(default_factory=dict)
    """[B, L] each: `document` ids of packed documents, `prefix` flags, `segment` ids, `position` where it is not the
    token's index."""
    right_padded: bool | None = None
    """Whether padding only follows the real tokens; None if unknown."""

    @classmethod
    def from_lists(
        cls, rows: Sequence[Sequence[int]], padding: int = 0, device: torch.device | None = None
    ) -> TokenBatch:
        """Pads lists of ids of any length on the right."""
        length = max([1, *map(len, rows)])
        ids = torch.full((len(rows), length), padding, dtype=torch.long)
        padding_mask = torch.zeros(len(rows), length, dtype=torch.bool)
        for row, values in enumerate(rows):
            ids[row, : len(values)] = torch.tensor(values, dtype=torch.long)
            padding_mask[row, : len(values)] = True
        return cls(ids.to(device), None if bool(padding_mask.all()) else padding_mask.to(device), {}, right_padded=True)

    @classmethod
    def of(cls, value: TokenBatch | Tensor) -> TokenBatch:
        """Returns a token batch as it is, and ids [B, L] as one without padding."""
        return value if isinstance(value, TokenBatch) else cls(value, right_padded=True)


def last_token(x_BLD: Tensor, padding_mask_BL: Tensor | None) -> Tensor:
    """Selects the vector of the last real token of each row, [B, ...]; of the first position if a row has none."""
    if padding_mask_BL is None:
        return x_BLD[:, -1]
    index_L = torch.arange(padding_mask_BL.shape[1], device=padding_mask_BL.device)
    last_B = torch.where(padding_mask_BL, index_L, 0).amax(1)
    return x_BLD[torch.arange(x_BLD.shape[0], device=x_BLD.device), last_B]


class BatchLayout:
    """Layout of a token batch: its padding, the index and position of each token, and whether tensors are packed."""

    def __init__(
        self,
        shape: tuple[int, int],
        device: torch.device,
        padding_mask: Tensor | None = None,
        right_padded: bool = True,
        offset: int | Tensor = 0,
        features: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.rows, self.length = shape
        self.device = device
        self.padding_mask = padding_mask
        self.right_padded = padding_mask is None or right_padded
        self.offset = offset
        self.features: Mapping[str, Tensor] = features or {}
        self.index: Tensor | None = None
        """[N]: the index of each packed token in [B * L]; None if tensors are padded."""
        self._padding_index: dict[tuple[int, ...], PaddingIndex] = {}
        self.ancestor_mask: Tensor | None = None
        """Ancestor (tree) mask [B, Q, K]: which cached keys each new token may attend to when beams share a cache row;
        None if all of its row."""

    @classmethod
    def of(cls, tokens: TokenBatch, after: BatchLayout | None = None) -> BatchLayout:
        """The layout of a token batch, which continues the tokens of `after`."""
        padding_mask = tokens.padding_mask
        right_padded = tokens.right_padded
        if padding_mask is not None and right_padded is None:
            # Reading the mask is free on a CPU; elsewhere it would synchronize the device, so the worst is assumed.
            right_padded = is_cpu(padding_mask) and not bool((padding_mask[:, 1:] & ~padding_mask[:, :-1]).any())
        rows, length = tokens.ids.shape
        offset = 0 if after is None else after.count
        return cls((rows, length), tokens.ids.device, padding_mask, bool(right_padded), offset, tokens.features)

    def packed(self) -> BatchLayout:
        """The packed layout of the same tokens; itself if there is no padding."""
        if self.padding_mask is None:
            return self
        result = BatchLayout(
            (self.rows, self.length), self.device, self.padding_mask, self.right_padded, self.offset, self.features
        )
        result.index = self.padding_mask.reshape(-1).nonzero().squeeze(1)
        return result

    def padded(self) -> BatchLayout:
        """The padded layout of the same tokens; itself if it is padded."""
        if self.index is None:
            return self
        return BatchLayout(
            (self.rows, self.length), self.device, self.padding_mask, self.right_padded, self.offset, self.features
        )

    @property
    def is_packed(self) -> bool:
        """Whether tensors are [N, D] instead of [B, L, D]."""
        return self.index is not None

    def pad(self, x: Tensor) -> Tensor:
        """Scatters packed rows [N, D] into a zero-padded tensor [B, L, D]; returns a padded tensor as it is."""
        if self.index is None:
            return x
        return _scatter_rows(x, self.index, self.rows * self.length).view(self.rows, self.length, *x.shape[1:])

    def unpad(self, x_BLD: Tensor) -> Tensor:
        """Inverse of `pad`: gathers the real tokens [N, D] if this layout is packed."""
        if self.index is None:
            return x_BLD
        return _gather_rows(x_BLD.reshape(self.rows * self.length, *x_BLD.shape[2:]), self.index)

    def to_heads(self, x: Tensor, *pieces: int) -> tuple[Tensor, ...]:
        """Splits a fused projection [..., H * E] into pieces of so many heads each, [B, H, L, E].

        Padding positions hold arbitrary values.
        """
        if (index := self._padding_index_for(pieces)) is not None:
            return index.scatter(x)
        heads = sum(pieces)
        x_BLD = self.pad(x)
        split_BHLE = x_BLD.view(*x_BLD.shape[:2], heads, x.shape[-1] // heads).transpose(1, 2)
        return split_BHLE.split(pieces, 1)  # type: ignore[no-any-return]

    def from_heads(self, x_BHLE: Tensor) -> Tensor:
        """Concatenates the outputs of heads [B, H, L, E]: [N, H * E] if this layout is packed, else [B, L, H * E]."""
        # Some kernels return [B, L, H, E] storage; then there is nothing to transpose.
        index = None if x_BHLE.stride(2) > x_BHLE.stride(1) else self._padding_index_for((x_BHLE.shape[1],))
        if index is not None:
            return index.gather(x_BHLE)
        return self.unpad(x_BHLE.transpose(1, 2).flatten(2))

    def _padding_index_for(self, pieces: tuple[int, ...]) -> PaddingIndex | None:
        """The indices for pieces of so many heads; None if padding and transposing is faster."""
        if self.index is None or not should_index_heads(self.index, self.length):
            return None
        if pieces not in self._padding_index:
            self._padding_index[pieces] = PaddingIndex((self.rows, self.length), self.index, pieces)
        return self._padding_index[pieces]

    @cached_property
    def cu_seqlens(self) -> Tensor | None:
        """[B + 1]: cumulative sequence lengths of the rows, for varlen attention; None if padding is in memory."""
        if self.padding_mask is None:
            return torch.arange(self.rows + 1, device=self.device) * self.length
        if self.index is None:
            return None
        return torch.nn.functional.pad(self.padding_mask.sum(1).cumsum(0), (1, 0))

    def cu_seqlens_with(self, keys: BatchLayout) -> tuple[Tensor, Tensor] | None:
        """cu_seqlens of queries and keys; None if sequences are long or padded in memory, or a query has no key."""
        q_cu_seqlens, k_cu_seqlens = self.cu_seqlens, keys.cu_seqlens
        if (
            q_cu_seqlens is None
            or k_cu_seqlens is None
            or max(self.length, keys.length) > MAX_SEQ_LEN
            or self.rows != keys.rows
        ):
            return None
        without_keys = (k_cu_seqlens.diff() == 0) & (q_cu_seqlens.diff() > 0)
        return None if bool(without_keys.any()) else (q_cu_seqlens, k_cu_seqlens)

    @cached_property
    def token_index(self) -> Tensor:
        """[B or 1, L]: the index of each token among the real tokens of its row, which masks compare."""
        if self.padding_mask is None or self.right_padded:
            steps = torch.arange(self.length, device=self.device)[None]
            return steps + self.offset
        return (self.padding_mask.cumsum(1) - 1).clamp(min=0) + self.offset

    @cached_property
    def positions(self) -> Tensor:
        """[B or 1, L]: the position of each token; its index unless the batch has a feature `position`."""
        return self.features.get("position", self.token_index)

    @property
    def packed_positions(self) -> Tensor:
        """Positions of the tokens: [N] if this layout is packed, else [B or 1, L]."""
        if self.index is None:
            return self.positions
        return self.positions.expand(self.rows, self.length).reshape(-1).index_select(0, self.index)

    @cached_property
    def count(self) -> int | Tensor:
        """The number of real tokens read so far: an integer, or [B, 1] where rows differ."""
        if self.padding_mask is None:
            return self.offset + self.length
        return self.padding_mask.sum(1, keepdim=True) + self.offset

    def join(self, new: BatchLayout) -> BatchLayout:
        """Concatenates new tokens: the layout of the keys that queries of the new tokens attend to."""
        padding_mask = None
        if self.padding_mask is not None or new.padding_mask is not None:
            padding_mask = torch.cat([self._padding_mask_or_ones(), new._padding_mask_or_ones()], 1)
        features = {
            name: torch.cat([self.features[name], new.features[name]], 1)
            for name in new.features
            if name in self.features
        }
        right_padded = padding_mask is None or (self.padding_mask is None and new.right_padded)
        joined = BatchLayout(
            (self.rows, self.length + new.length), self.device, padding_mask, right_padded, 0, features
        )
        if isinstance(self.offset, Tensor) or isinstance(new.offset, Tensor):
            joined.token_index = torch.cat(
                [self.token_index.expand(self.rows, -1), new.token_index.expand(self.rows, -1)], 1
            )
        joined.ancestor_mask = new.ancestor_mask
        return joined

    def reorder(self, rows: Tensor) -> BatchLayout:
        """Selects rows, in a new order."""
        chosen = BatchLayout(
            (rows.shape[0], self.length),
            self.device,
            None if self.padding_mask is None else self.padding_mask[rows],
            self.right_padded,
            self.offset[rows] if isinstance(self.offset, Tensor) else self.offset,
            {name: feature[rows] for name, feature in self.features.items()},
        )
        if "token_index" in self.__dict__:
            chosen.token_index = self.token_index[rows] if self.token_index.shape[0] > 1 else self.token_index
        return chosen

    def evict_except(self, tokens_BK: Tensor) -> BatchLayout:
        """Keeps only these tokens of each row, as keys; `count` is no longer known."""
        padding_mask = None if self.padding_mask is None else self.padding_mask.gather(1, tokens_BK)
        features = {name: feature.gather(1, tokens_BK) for name, feature in self.features.items()}
        kept = BatchLayout((self.rows, tokens_BK.shape[1]), self.device, padding_mask, False, self.offset, features)
        kept.token_index = self.token_index.expand(self.rows, -1).gather(1, tokens_BK)
        return kept

    def _padding_mask_or_ones(self) -> Tensor:
        if self.padding_mask is not None:
            return self.padding_mask
        return torch.ones(self.rows, self.length, dtype=torch.bool, device=self.device)


def _scatter_rows(x_ND: Tensor, index_N: Tensor, size: int) -> Tensor:
    """Scatters rows into a zero tensor [size, D], at distinct indices; backward is index_select (no atomics)."""
    out_SD: Tensor = _ScatterRows.apply(x_ND, index_N, size)  # type: ignore[no-untyped-call]
    return out_SD


def _gather_rows(x_SD: Tensor, index_N: Tensor) -> Tensor:
    """Gathers rows at distinct indices: [N, D]; backward scatters them, which index_select's own does by atomics."""
    out_ND: Tensor = _GatherRows.apply(x_SD, index_N)  # type: ignore[no-untyped-call]
    return out_ND


class _ScatterRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, index_N: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(index_N)
        return x_ND.new_zeros(size, *x_ND.shape[1:]).index_copy_(0, index_N, x_ND)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (index_N,) = ctx.saved_tensors
        return _gather_rows(gradients[0], index_N), None, None


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_SD: Tensor, index_N: Tensor) -> Tensor:
        ctx.save_for_backward(index_N)
        ctx.size = x_SD.shape[0]
        return x_SD.index_select(0, index_N)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (index_N,) = ctx.saved_tensors
        return _scatter_rows(gradients[0], index_N, ctx.size), None
