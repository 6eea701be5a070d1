"""What a part remembers between decoding steps: its own business, but any search can choose among its rows.

Shapes: B rows, G groups of keys, K keys so far, E width of a key or value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from kit.few_queries import chosen_rows, many, to_columns


class State(ABC):
    """What a part remembers; made empty by the part's `start`, filled by its `forward`."""

    @abstractmethod
    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order; a row may be chosen several times or not at all."""

    @abstractmethod
    def tensors(self) -> Iterable[Tensor]:
        """What is remembered, for measuring."""

    def reserve(self, tokens: int) -> None:  # noqa: B027
        """Make room for so many more tokens, in states that keep room ahead; nothing by default."""

    def whole(self) -> State:
        """The state itself; one that stands in for another gives that."""
        return self

    def share(self) -> None:  # noqa: B027
        """From now on several rows of a search share each row and read it at once; nothing to do by default."""

    def keep_tokens(self, tokens_BK: Tensor) -> None:
        """Forget all tokens but these of each row; only a state that is shared is asked to."""
        raise NotImplementedError(f"{type(self).__name__} is shared by rows of a search and has no keep_tokens")

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors())


class NoState(State):
    """For parts that remember nothing."""

    def select(self, rows: Tensor) -> None:
        """Nothing to choose from."""

    def keep_tokens(self, tokens_BK: Tensor) -> None:
        """Nothing to forget."""

    def tensors(self) -> Iterator[Tensor]:
        """Nothing."""
        yield from ()


class States(State):
    """The states of several parts, chosen from together."""

    def __init__(self, parts: Sequence[State]) -> None:
        self.parts = list(parts)

    def __getitem__(self, index: int) -> State:
        return self.parts[index]

    def select(self, rows: Tensor) -> None:
        """Choose rows in every one."""
        for part in self.parts:
            part.select(rows)

    def reserve(self, tokens: int) -> None:
        """In every one."""
        for part in self.parts:
            part.reserve(tokens)

    def share(self) -> None:
        """Every one."""
        for part in self.parts:
            part.share()

    def keep_tokens(self, tokens_BK: Tensor) -> None:
        """In every one."""
        for part in self.parts:
            part.keep_tokens(tokens_BK)

    def tensors(self) -> Iterator[Tensor]:
        """Of every one."""
        for part in self.parts:
            yield from part.tensors()


class TensorState(State):
    """Named tensors whose first axis is rows: a running sum, a cell, the last few inputs."""

    def __init__(self) -> None:
        self.values: dict[str, Tensor] = {}

    def select(self, rows: Tensor) -> None:
        """Choose rows of every tensor."""
        self.values = {name: value.index_select(0, rows) for name, value in self.values.items()}

    def tensors(self) -> Iterable[Tensor]:
        """Every tensor."""
        return self.values.values()


class KeyValueState(State):
    """Keys and values of every token so far, in buffers that grow by doubling: a step copies only what is new."""

    def __init__(self) -> None:
        self.length = 0
        self._buffers: tuple[Tensor, Tensor] | None = None
        self._shared = False

    def append(self, k_BGKE: Tensor, v_BGKE: Tensor) -> tuple[Tensor, Tensor]:
        """Remember these too; returns all keys and all values."""
        start, self.length = self.length, self.length + k_BGKE.shape[2]
        if torch.is_grad_enabled() and k_BGKE.requires_grad:
            # Gradients must flow to what was remembered, so nothing may be written over.
            joined = (k_BGKE, v_BGKE) if self._buffers is None else self._joined(k_BGKE, v_BGKE, start)
            self._buffers = joined
            return joined
        if self._buffers is None:
            self._buffers = k_BGKE[:, :, :0], v_BGKE[:, :, :0]
        if self._buffers[0].shape[2] < self.length:
            self._grow(start, self.length)
        for buffer, new in zip(self._buffers, (k_BGKE, v_BGKE), strict=True):
            buffer[:, :, start : self.length] = new
        if start == 0:
            return k_BGKE, v_BGKE
        return self._buffers[0][:, :, : self.length], self._buffers[1][:, :, : self.length]

    def select(self, rows: Tensor) -> None:
        """Choose rows, with the room that is left in them: cutting it off would mean to copy twice."""
        if self._buffers is not None:
            keys, values = self._buffers
            self._buffers = chosen_rows(keys, rows), values.index_select(0, rows)

    def reserve(self, tokens: int) -> None:
        """Grow, so that there is room for so many and more."""
        if self._buffers is not None and self._buffers[0].shape[2] <= self.length + tokens:
            self._grow(self.length, self.length + tokens + 1)

    def share(self) -> None:
        """Store keys as several queries read them."""
        self._shared = True
        if self._buffers is not None and many(self._buffers[0]):
            self._grow(self.length, self._buffers[0].shape[2])

    def keep_tokens(self, tokens_BK: Tensor) -> None:
        """Into buffers with room for twice as many more: half of them are of use when this happens next."""
        if self._buffers is not None:
            self.length = tokens_BK.shape[1]
            self._refill([_chosen_tokens(each, tokens_BK) for each in self._buffers], 3 * self.length)

    def tensors(self) -> Iterator[Tensor]:
        """Keys and values in use."""
        for buffer in self._buffers or ():
            yield buffer[:, :, : self.length]

    def _joined(self, k_BGKE: Tensor, v_BGKE: Tensor, start: int) -> tuple[Tensor, Tensor]:
        assert self._buffers is not None
        keys, values = self._buffers
        return torch.cat([keys[:, :, :start], k_BGKE], 2), torch.cat([values[:, :, :start], v_BGKE], 2)

    def _grow(self, used: int, wanted: int) -> None:
        """Buffers for at least so many tokens; those in use are copied."""
        assert self._buffers is not None
        self._refill([each[:, :, :used] for each in self._buffers], max(wanted, 2 * used))

    def _refill(self, used: Sequence[Tensor], capacity: int) -> None:
        """New buffers that begin with these keys and values."""
        keys, values = used
        rows, groups, length, width = keys.shape
        capacity = max(capacity, 16)
        if self._shared and many(keys):
            room = keys.new_empty(rows, groups, width, capacity).transpose(2, 3)
        else:
            room = keys.new_empty(rows, groups, capacity, width)
        self._buffers = room, values.new_empty(rows, groups, capacity, values.shape[3])
        for buffer, old in zip(self._buffers, used, strict=True):
            buffer[:, :, :length] = old


class MemoryState(State):
    """Keys and values of a memory, projected once for a whole decoding."""

    def __init__(self, by_row: bool = False) -> None:
        self.projected: tuple[Tensor, Tensor] | None = None
        self._by_row = by_row
        """Whether keys are wanted by row even where several queries read them."""
        self._shared = False

    def keep(self, k_BGKE: Tensor, v_BGKE: Tensor) -> tuple[Tensor, Tensor]:
        """Remember these; returns them as they lie now."""
        # Read at every step, so it pays to lay each head's keys side by side.
        columns = self._shared and not self._by_row and many(k_BGKE)
        keys = to_columns(k_BGKE) if columns else k_BGKE.contiguous()
        self.projected = keys, v_BGKE.contiguous()
        return self.projected

    def share(self) -> None:
        """Store keys as several queries read them."""
        self._shared = True
        if self.projected is not None:
            self.keep(*self.projected)

    def keep_tokens(self, tokens_BK: Tensor) -> None:
        """A memory has no tokens of the search."""

    def select(self, rows: Tensor) -> None:
        """Choose rows of the projected memory."""
        if self.projected is not None:
            keys, values = self.projected
            self.projected = chosen_rows(keys, rows), values.index_select(0, rows)

    def tensors(self) -> Iterable[Tensor]:
        """Projected keys and values."""
        return self.projected or ()


def _chosen_tokens(x_BGSE: Tensor, tokens_BK: Tensor) -> Tensor:
    """Keys or values of these tokens of each row: [B, G, K, E]."""
    _, groups, _, width = x_BGSE.shape
    return x_BGSE.gather(2, tokens_BK[:, None, :, None].expand(-1, groups, -1, width))
