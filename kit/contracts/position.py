"""Contract of positional encodings: four locations in a model where positions can enter, identities by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from torch import Tensor

from kit.contracts.part import Part

if TYPE_CHECKING:
    from kit.sequence.attention_context import AttentionContext

Location = Literal["embed", "rotate", "bias", "content_bias"]
LOCATIONS: tuple[Location, ...] = ("embed", "rotate", "bias", "content_bias")


class Position(Part):
    """Override the methods you need; positions are integers that count from 0.

    Shapes: B rows, H heads, Q queries, K keys, L tokens, E head_dim of queries and keys, D width of the model.
    """

    kind = "position"

    longest: int | None = None
    """The greatest sequence length it supports; None if there is no limit."""
    relative: ClassVar[bool] = False
    """Whether only distances count, so that shifting all positions changes no attention score."""
    locations: frozenset[Location] = frozenset()
    """Which of the four methods a class overrides; set when the class is defined."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.locations = frozenset(name for name in LOCATIONS if getattr(cls, name) is not getattr(Position, name))

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """Absolute encoding: adds encodings of positions [...] to token embeddings x [..., D]."""
        return x

    def rotate(self, x_BHLE: Tensor, at_BL: Tensor, side: Literal["query", "key"]) -> Tensor:
        """Rotary encoding: rotates queries or keys [B, H, L, E] by their positions."""
        return x_BHLE

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor | None:
        """Attention bias from positions alone, added to scores: [B or 1, H or 1, Q, K]. Computed once a pass."""
        return None

    def content_bias(self, q_BHQE: Tensor, k_BHKE: Tensor, context: AttentionContext) -> Tensor | None:
        """Attention bias from positions and content, added to scores: [B, H, Q, K].

        `context.queries.positions` and `context.keys.positions` are the positions, `context.attention_mask` the mask.
        """
        return None
