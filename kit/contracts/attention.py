"""The contract of attention: queries from one text, keys and values from the same one or from a memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from kit.component import Dims
from kit.contracts.mask import Shape
from kit.contracts.part import Part
from kit.contracts.position import Place
from kit.scope import Scope
from kit.state import State

Cost = Literal["linear", "quadratic"]


@dataclass(frozen=True)
class Abilities:
    """What an attention can do, as data: recipes are checked against it and the documentation is made from it."""

    masks: frozenset[Shape] = frozenset({"causal", "pairs"})
    """Which masks it honours; padding is honoured always. `pairs` stands for any mask."""
    positions: frozenset[Place] = frozenset({"rotate", "bias", "interact"})
    """Which places of a position it makes use of; `embed` happens before attention and concerns none."""
    reads_self: bool = True
    """Whether it can attend to its own text."""
    reads_memory: bool = True
    """Whether it can attend to a memory, as in a decoder."""
    steps: bool = True
    """Whether it can go on token by token with a state."""
    branches: bool = False
    """Whether it knows keys by what `scope` says of them alone (order, positions, which are allowed), never by where
    they lie in its `KeyValueState`; hypotheses of a beam then share one cache, and reordering copies none of it."""
    weights: bool = True
    """Whether it has weights to show to a watcher."""
    shares: bool = True
    """Whether the weights of a query sum to one over the keys it sees."""
    compiles: bool = True
    """Whether torch.compile gives the same numbers."""
    cost: Cost = "quadratic"
    """How time and memory grow with the length of a text."""


class Attention(Part):
    """Mixes information between tokens."""

    kind = "attention"

    abilities: ClassVar[Abilities] = Abilities()

    @classmethod
    def head_shape(cls, options: Any, dims: Dims) -> tuple[int, int]:
        """How many heads there are and how wide a query is: what a position part is built for."""
        return 1, dims.width

    @abstractmethod
    def forward(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None = None) -> Tensor:
        """x: queries' vectors as `scope.queries` carries them; memory: as `scope.keys` does, or None to attend to x.

        state: what `start` gave, while decoding; it is read and brought up to date. Returns the shape of x.
        """

    def with_heads(self, chosen: Sequence[int]) -> dict[str, Tensor] | None:
        """Its parameters with only these of its heads, as a part built for a site that has `kept` them has them.

        None where heads cannot be taken out.
        """
        return None

    def value_path(self) -> list[Tensor]:
        """The weight matrices that carry values to the output, not those that choose; some residuals scale them."""
        return [parameter for parameter in self.parameters() if parameter.dim() > 1]

    @abstractmethod
    def start(self) -> State:
        """What it remembers between steps, empty."""
