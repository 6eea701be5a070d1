"""Decoding caches (KV cache, cross-attention KV, recurrent state) that any search can reorder.

Shapes: B rows, G key-value heads, K cached keys, S capacity of a buffer, E head_dim of keys or values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from kit.kernels.attention import index_select_keys, should_store_keys_transposed, transpose_keys


class Cache(ABC):
    """The cache of one part: created empty by the part's `start`, filled by its `forward`."""

    @abstractmethod
    def reorder(self, rows: Tensor) -> None:
        """Selects rows, in a new order; a row may be selected several times or not at all."""

    @abstractmethod
    def tensors(self) -> Iterable[Tensor]:
        """Returns the cached tensors, to measure their size."""

    def reserve(self, tokens: int) -> None:  # noqa: B027
        """Grows preallocated buffers by so many tokens; does nothing by default."""

    def materialize(self) -> Cache:
        """Returns the cache itself; a `FlattenedCache` returns the cache that it represents."""
        return self

    def share_across_beams(self) -> None:  # noqa: B027
        """Prepares for beams of one input that share one cache row (tree-masked); does nothing by default."""

    def evict_except(self, tokens_BK: Tensor) -> None:
        """Evicts all tokens but these of each row; called only after `share_across_beams`."""
        raise NotImplementedError(f"{type(self).__name__} is shared by beams of a search and has no evict_except")

    @property
    def bytes(self) -> int:
        """The size of the cached tensors in bytes."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors())


class NoCache(Cache):
    """The cache of a part that needs none."""

    def reorder(self, rows: Tensor) -> None:
        """Does nothing."""

    def evict_except(self, tokens_BK: Tensor) -> None:
        """Does nothing."""

    def tensors(self) -> Iterator[Tensor]:
        """Yields no tensor."""
        yield from ()


class CacheList(Cache):
    """The caches of several parts, reordered together."""

    def __init__(self, parts: Sequence[Cache]) -> None:
        self.parts = list(parts)

    def __getitem__(self, index: int) -> Cache:
        return self.parts[index]

    def reorder(self, rows: Tensor) -> None:
        """Reorders each cache."""
        for part in self.parts:
            part.reorder(rows)

    def reserve(self, tokens: int) -> None:
        """Grows the buffers of each cache."""
        for part in self.parts:
            part.reserve(tokens)

    def share_across_beams(self) -> None:
        """Prepares each cache."""
        for part in self.parts:
            part.share_across_beams()

    def evict_except(self, tokens_BK: Tensor) -> None:
        """Evicts tokens from each cache."""
        for part in self.parts:
            part.evict_except(tokens_BK)

    def tensors(self) -> Iterator[Tensor]:
        """Yields the tensors of each cache."""
        for part in self.parts:
            yield from part.tensors()


class RecurrentCache(Cache):
    """Named tensors [B, ...]: a running sum, a cell state, the last few inputs."""

    def __init__(self) -> None:
        self.values: dict[str, Tensor] = {}

    def reorder(self, rows: Tensor) -> None:
        """Selects rows of each tensor."""
        self.values = {name: value.index_select(0, rows) for name, value in self.values.items()}

    def tensors(self) -> Iterable[Tensor]:
        """Returns all tensors."""
        return self.values.values()


class KVCache(Cache):
    """KV cache of self-attention: buffers [B, G, S, E] that grow by doubling, so that a step copies only new tokens."""

    def __init__(self) -> None:
        self.length = 0
        self._buffers: tuple[Tensor, Tensor] | None = None
        self._shared = False

    def append(self, k_BGKE: Tensor, v_BGKE: Tensor) -> tuple[Tensor, Tensor]:
        """Appends keys and values of new tokens; returns those of all tokens."""
        start, self.length = self.length, self.length + k_BGKE.shape[2]
        if torch.is_grad_enabled() and k_BGKE.requires_grad:
            # Gradients flow to cached keys and values, so buffers must not be written in place.
            both = (k_BGKE, v_BGKE) if self._buffers is None else self._concatenated(k_BGKE, v_BGKE, start)
            self._buffers = both
            return both
        if self._buffers is None:
            self._buffers = k_BGKE[:, :, :0], v_BGKE[:, :, :0]
        if self._buffers[0].shape[2] < self.length:
            self._grow(start, self.length)
        for buffer, new in zip(self._buffers, (k_BGKE, v_BGKE), strict=True):
            buffer[:, :, start : self.length] = new
        if start == 0:
            return k_BGKE, v_BGKE
        return self._buffers[0][:, :, : self.length], self._buffers[1][:, :, : self.length]

    def reorder(self, rows: Tensor) -> None:
        """Selects rows of whole buffers, spare capacity included: to slice it off would copy twice."""
        if self._buffers is not None:
            keys, values = self._buffers
            self._buffers = index_select_keys(keys, rows), values.index_select(0, rows)

    def reserve(self, tokens: int) -> None:
        """Grows the buffers to hold more than so many new tokens."""
        if self._buffers is not None and self._buffers[0].shape[2] <= self.length + tokens:
            self._grow(self.length, self.length + tokens + 1)

    def share_across_beams(self) -> None:
        """Stores keys transposed where that is faster for several queries per row."""
        self._shared = True
        if self._buffers is not None and should_store_keys_transposed(self._buffers[0]):
            self._grow(self.length, self._buffers[0].shape[2])

    def evict_except(self, tokens_BK: Tensor) -> None:
        """Compacts the buffers; capacity for 2x more tokens before the next compaction."""
        if self._buffers is not None:
            self.length = tokens_BK.shape[1]
            self._refill([_gather_tokens(each, tokens_BK) for each in self._buffers], 3 * self.length)

    def tensors(self) -> Iterator[Tensor]:
        """Yields cached keys and values, without spare capacity."""
        for buffer in self._buffers or ():
            yield buffer[:, :, : self.length]

    def _concatenated(self, k_BGKE: Tensor, v_BGKE: Tensor, start: int) -> tuple[Tensor, Tensor]:
        assert self._buffers is not None
        keys, values = self._buffers
        return torch.cat([keys[:, :, :start], k_BGKE], 2), torch.cat([values[:, :, :start], v_BGKE], 2)

    def _grow(self, used: int, wanted: int) -> None:
        """Allocates buffers for at least so many tokens, and copies those in use."""
        assert self._buffers is not None
        self._refill([each[:, :, :used] for each in self._buffers], max(wanted, 2 * used))

    def _refill(self, used: Sequence[Tensor], capacity: int) -> None:
        """Allocates buffers of this capacity that begin with these keys and values."""
        keys, values = used
        rows, kv_heads, length, width = keys.shape
        capacity = max(capacity, 16)
        if self._shared and should_store_keys_transposed(keys):
            buffer_BGSE = keys.new_empty(rows, kv_heads, width, capacity).transpose(2, 3)
        else:
            buffer_BGSE = keys.new_empty(rows, kv_heads, capacity, width)
        self._buffers = buffer_BGSE, values.new_empty(rows, kv_heads, capacity, values.shape[3])
        for buffer, old in zip(self._buffers, used, strict=True):
            buffer[:, :, :length] = old


class CrossAttentionKVCache(Cache):
    """Cross-attention KV cache: keys and values of the encoder output, projected once for a whole decoding."""

    def __init__(self, keep_contiguous: bool = False) -> None:
        self.projected: tuple[Tensor, Tensor] | None = None
        self._keep_contiguous = keep_contiguous
        """Whether keys are never stored transposed, also when beams share a row."""
        self._shared = False

    def store(self, k_BGKE: Tensor, v_BGKE: Tensor) -> tuple[Tensor, Tensor]:
        """Caches projected keys and values; returns them as stored."""
        # Read at every step, so a contiguous copy pays off.
        transposed = self._shared and not self._keep_contiguous and should_store_keys_transposed(k_BGKE)
        keys = transpose_keys(k_BGKE) if transposed else k_BGKE.contiguous()
        self.projected = keys, v_BGKE.contiguous()
        return self.projected

    def share_across_beams(self) -> None:
        """Stores keys transposed where that is faster for several queries per row."""
        self._shared = True
        if self.projected is not None:
            self.store(*self.projected)

    def evict_except(self, tokens_BK: Tensor) -> None:
        """Does nothing: the encoder output has no generated tokens."""

    def reorder(self, rows: Tensor) -> None:
        """Selects rows of the projected encoder output."""
        if self.projected is not None:
            keys, values = self.projected
            self.projected = index_select_keys(keys, rows), values.index_select(0, rows)

    def tensors(self) -> Iterable[Tensor]:
        """Returns projected keys and values."""
        return self.projected or ()


def _gather_tokens(x_BGSE: Tensor, tokens_BK: Tensor) -> Tensor:
    """Gathers keys or values of these tokens of each row: [B, G, K, E]."""
    _, kv_heads, _, width = x_BGSE.shape
    return x_BGSE.gather(2, tokens_BK[:, None, :, None].expand(-1, kv_heads, -1, width))
