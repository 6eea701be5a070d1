"""The contract of a position: four places where a model can learn where a token stands, identities by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from torch import Tensor

from kit.contracts.part import Part

if TYPE_CHECKING:
    from kit.scope import Scope

Place = Literal["embed", "rotate", "bias", "interact"]
PLACES: tuple[Place, ...] = ("embed", "rotate", "bias", "interact")


class Position(Part):
    """Override the place you need; positions are whole numbers that count from 0.

    Shapes: B rows, H heads, Q queries, K keys, L tokens, E width of a query or key, D width of the model.
    """

    kind = "position"

    longest: int | None = None
    """The longest text it can serve, where there is one."""
    relative: ClassVar[bool] = False
    """Whether only distances count, so that moving a whole text changes no score."""

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """x: [..., D] token vectors, at: [...] their positions; returns x with positions in it."""
        return x

    def rotate(self, x_BHLE: Tensor, at_BL: Tensor, side: Literal["query", "key"]) -> Tensor:
        """Queries or keys of one attention, with their positions; returns the same shape."""
        return x_BHLE

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor | None:
        """What is added to scores, from positions alone: [B or 1, H or 1, Q, K]. Computed once a pass."""
        return None

    def interact(self, q_BHQE: Tensor, k_BHKE: Tensor, scope: Scope) -> Tensor | None:
        """What is added to scores, from positions and content together: [B, H, Q, K].

        `scope.queries.at` and `scope.keys.at` are the positions, `scope.allowed` says who sees whom.
        """
        return None

    @classmethod
    def places(cls) -> frozenset[Place]:
        """Which of the four it uses: those that it overrides."""
        return frozenset(place for place in PLACES if getattr(cls, place) is not getattr(Position, place))
