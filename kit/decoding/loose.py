"""A state that lies apart, as compiled steps take it, and is put together when anybody else asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from kit.decoding.leaves import Shape, put_together, take_apart
from kit.state import State


class Loose(State):
    """Stands in for a stack's state: from step to step only its leaves change, and nobody walks through its objects."""

    def __init__(self, state: State) -> None:
        self._whole: State | None = state
        self.shape: Shape = ()
        self.leaves: list[Any] = []
        self.beside_shape: Shape = ()
        self.beside_leaves: list[Any] = []
        self.memory: object = self
        """What is read beside the state; itself where nobody has said so yet."""
        self.last: Any = None
        """The step that was taken last."""
        self.kind: int | None = None
        """The number of this kind of state and memory; None where nobody has looked yet."""

    @property
    def is_whole(self) -> bool:
        """Whether anybody may have changed it since the last compiled step."""
        return self._whole is not None

    def whole(self) -> State:
        """The state as its stack knows it."""
        if self._whole is None:
            state: State = put_together(self.shape, self.leaves)
            self._whole = state
        return self._whole

    def apart(self) -> None:
        """Take the state apart."""
        if self._whole is not None:
            self.shape, self.leaves = take_apart(self._whole)
            self._whole = self.kind = None

    def become(self, shape: Shape, size: int) -> None:
        """Have another shape from now on, with so many leaves; those in the same place stay where there are as many."""
        self.shape, self.kind = shape, None
        if size != len(self.leaves):
            self.leaves = [None] * size

    def beside(self, memory: object) -> None:
        """Take a memory apart that is read beside the state, the same at every step."""
        if memory is not self.memory:
            self.beside_shape, self.beside_leaves = take_apart(memory)
            self.memory, self.kind = memory, None

    def select(self, rows: Tensor) -> None:
        """Of the whole."""
        self.whole().select(rows)

    def reserve(self, tokens: int) -> None:
        """Of the whole."""
        self.whole().reserve(tokens)

    def share(self) -> None:
        """Of the whole."""
        self.whole().share()

    def keep_tokens(self, tokens_BK: Tensor) -> None:
        """Of the whole."""
        self.whole().keep_tokens(tokens_BK)

    def tensors(self) -> Iterable[Tensor]:
        """Of the whole."""
        return self.whole().tensors()
