"""The contract of a stack: token vectors in, token vectors out, with a state where it goes step by step."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from kit.contracts.part import Part
from kit.layout import Layout
from kit.state import State
from kit.watching import Watcher


@dataclass(frozen=True)
class Memory:
    """What an encoder made of the source, for a decoder to attend to."""

    x: Tensor
    """Vectors, as `layout` carries them."""
    layout: Layout

    def padded(self) -> Memory:
        """The same in padded rows, of which some can be chosen."""
        return Memory(self.layout.pad(self.x), self.layout.padded())

    def select(self, rows: Tensor) -> Memory:
        """Some of its rows; only for a memory that is not packed."""
        return Memory(self.x.index_select(0, rows), self.layout.select(rows))


class Stack(Part):
    """Owns its layers."""

    kind = "stack"

    reads_memory: ClassVar[bool] = True
    """Whether it can be a decoder of an encoder-decoder."""

    @classmethod
    def depth_of(cls, options: Any) -> int:
        """How many layers a token goes through in a stack with these options."""
        return int(getattr(options, "depth", 1))

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        layout: Layout,
        memory: Memory | None = None,
        state: State | None = None,
        watcher: Watcher | None = None,
    ) -> Tensor:
        """x: token vectors as `layout` carries them; returns the same shape.

        state: what `start` gave; x then holds only the tokens that are new since the last call.
        """

    @abstractmethod
    def start(self) -> State:
        """What it remembers between steps, empty."""

    def branches(self) -> bool:
        """Whether rows of one text can share a row of the state, told apart by `Layout.reach`; safe to leave false.

        The state is then told (`State.share`), and must be able to forget tokens (`State.keep_tokens`).
        """
        return False

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """Puts positions into token vectors, where the stack's position part does that."""
        return x
