"""Plain parts to put around the one under trial, so that laws need no plugin but the part's own.

Shapes: B rows, H heads, L tokens, Q queries, K keys, E width of a query or key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from kit.component import Component, Dims, Options, Site
from kit.contracts.hidden import HiddenFeedforward, HiddenOptions
from kit.contracts.mask import Facts, Mask
from kit.contracts.multi_head import MultiHeadAttention, MultiHeadOptions
from kit.contracts.norm import Norm
from kit.contracts.position import Place, Position
from kit.contracts.residual import Residual, Sublayer
from kit.scope import Scope


class PlainAttentionOptions(MultiHeadOptions):
    """Scaled dot products, two heads."""

    use: Literal["plain"] = "plain"
    heads: PositiveInt = 2


class PlainAttention(MultiHeadAttention):
    """The base class as it is."""

    options_type = PlainAttentionOptions


class PlainFeedforwardOptions(HiddenOptions):
    """One hidden layer."""

    use: Literal["plain"] = "plain"
    factor: PositiveFloat = 2.0


class PlainFeedforward(HiddenFeedforward):
    """Smooth, so that slopes can be compared with differences."""

    options_type = PlainFeedforwardOptions

    def activate(self, hidden: Tensor) -> Tensor:
        """tanh."""
        return torch.tanh(hidden)


class PlainNormOptions(Options):
    """To unit size."""

    use: Literal["plain"] = "plain"


class PlainNorm(Norm):
    """Divides by the root of the mean square."""

    options_type = PlainNormOptions

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]."""
        return F.rms_norm(x, x.shape[-1:], eps=1e-6)


class PlainResidualOptions(Options):
    """Norm before each sublayer."""

    use: Literal["plain"] = "plain"


class PlainResidual(Residual):
    """x + sublayer(norm(x))."""

    options_type = PlainResidualOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.norm = self.new_norm()

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]."""
        for sublayer in sublayers:
            x = x + self.dropout(sublayer(self.norm(x)))
        return x


class PlainMaskOptions(Options):
    """No later key."""

    use: Literal["plain"] = "plain"


class PlainMask(Mask):
    """Hides the future and nothing else."""

    options_type = PlainMaskOptions
    shape = "causal"
    hides_future = True

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """k <= q."""
        return k <= q


class Gaps(Mask):
    """Hides some pairs here and there, by what a batch says of both tokens, and from every fifth query all keys."""

    needs = ("group",)

    def __init__(self) -> None:
        """It has no options."""

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """Most pairs of groups, for four queries of five."""
        return ((facts.query["group"] + 2 * facts.key["group"]) % 4 != 1) & (q % 5 != 3)


class PlainPositionOptions(Options):
    """Made for laws."""

    use: Literal["plain"] = "plain"


class PlainPosition(Position):
    """Uses exactly the places it is told to, each in a way that cannot be overlooked."""

    options_type = PlainPositionOptions

    def __init__(self, places: frozenset[Place] = frozenset(), heads: int = 1) -> None:
        torch.nn.Module.__init__(self)
        self.used = places
        self.heads = heads

    def rotate(self, x_BHLE: Tensor, at_BL: Tensor, side: Literal["query", "key"]) -> Tensor:
        """Turns pairs of numbers, half a vector apart; an odd last one stays."""
        half = x_BHLE.shape[-1] // 2
        angle_BL = at_BL[:, None, :, None].to(x_BHLE.dtype) * 0.3
        a, b, rest = x_BHLE[..., :half], x_BHLE[..., half : 2 * half], x_BHLE[..., 2 * half :]
        return torch.cat([a * angle_BL.cos() - b * angle_BL.sin(), b * angle_BL.cos() + a * angle_BL.sin(), rest], -1)

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor | None:
        """Falls with distance, faster in later heads."""
        distance_B1QK = (q_at_BQ[:, None, :, None] - k_at_BK[:, None, None, :]).abs().double()
        slopes_H = torch.arange(1, self.heads + 1, device=q_at_BQ.device).double() / self.heads
        return -distance_B1QK.sqrt() * slopes_H[:, None, None]

    def interact(self, q_BHQE: Tensor, k_BHKE: Tensor, scope: Scope) -> Tensor | None:
        """By the query's first number and the parity of the distance."""
        odd_B1QK = (scope.queries.at[:, None, :, None] - scope.keys.at[:, None, None, :]) % 2
        return q_BHQE[..., :1] * odd_B1QK.to(q_BHQE.dtype)

    def places(self) -> frozenset[Place]:  # type: ignore[override]
        """Those it was told."""
        return self.used


PLAIN: tuple[type[Component], ...] = (
    PlainAttention,
    PlainFeedforward,
    PlainNorm,
    PlainResidual,
    PlainMask,
)
"""What fills a slot of a part under trial, by kind."""
