"""Keeps attention from collapsing on one key: entropy below a floor is a term of the loss (cf. Zhai et al. 2023)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from kit import Regularizer, RegularizerOptions, Scope, Site
from kit_regularizer.spread import entropy_share


class EntropyFloorOptions(RegularizerOptions):
    """Options of `entropy_floor`."""

    use: Literal["entropy_floor"] = "entropy_floor"
    floor: float = Field(default=0.1, gt=0.0, le=1.0)
    """The share of the largest possible entropy below which a query's attention is pushed up."""


class EntropyFloorRegularizer(Regularizer):
    """The mean of what is missing up to the floor; queries above it feel nothing."""

    options_type = EntropyFloorOptions
    options: EntropyFloorOptions

    def weights(self, site: Site, weights_BHQK: Tensor, scope: Scope) -> None:
        """Add this layer's part."""
        entropy_NH = entropy_share(weights_BHQK, self.seen(scope))
        if entropy_NH.numel():
            missing = (self.options.floor - entropy_NH).clamp(min=0).mean()
            self.add_loss("entropy_floor", self.options.strength * missing / len(self.shaped))
