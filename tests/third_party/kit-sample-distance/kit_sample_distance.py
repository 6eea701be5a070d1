"""Two parts that look at nothing but distance: a mask that hides what is far, and a position that fades it."""

from typing import Literal

from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from kit import Mask, MaskFeatures, Options, Position, hookimpl

kit_api = 1


class NearbyOptions(Options):
    """A query sees the last few tokens."""

    use: Literal["nearby"] = "nearby"
    reach: PositiveInt = 8
    """How many keys back a query may look, itself included."""


class NearbyMask(Mask):
    """Allows the query itself and the `reach - 1` tokens before it."""

    options_type = NearbyOptions
    options: NearbyOptions
    hides_future = True

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """Neither later nor too far back."""
        return (k <= q) & (q - k < self.options.reach)


class FadingOptions(Options):
    """Scores fall with distance."""

    use: Literal["fading"] = "fading"
    rate: PositiveFloat = 0.1
    """What a step of distance takes off a score."""


class FadingPosition(Position):
    """Subtracts `rate` from a score for each token in between, in every head alike."""

    options_type = FadingOptions
    options: FadingOptions

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        """[B, 1, Q, K]."""
        distance_BQK = (q_at_BQ[:, :, None] - k_at_BK[:, None, :]).abs()
        return -self.options.rate * distance_BQK[:, None]


@hookimpl
def kit_components():
    """Both parts."""
    return [NearbyMask, FadingPosition]
