"""Entropy floor against entropy collapse (cf. Zhai et al. 2023): entropy below it is an auxiliary loss."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from kit import AttentionContext, BuildContext, Regularizer, RegularizerOptions
from kit_regularizer.entropy import normalized_entropy


class EntropyFloorOptions(RegularizerOptions):
    """Options of `entropy_floor`."""

    use: Literal["entropy_floor"] = "entropy_floor"
    floor: float = Field(default=0.1, gt=0.0, le=1.0)
    """The normalized entropy (0 to 1) below which there is a loss."""


class EntropyFloorRegularizer(Regularizer):
    """The mean shortfall below the floor; queries above it have no loss."""

    options_type = EntropyFloorOptions
    options: EntropyFloorOptions

    def weights(self, build_context: BuildContext, weights_BHQK: Tensor, context: AttentionContext) -> None:
        """Add the auxiliary loss of this layer."""
        entropy_NH = normalized_entropy(weights_BHQK, self.visible_keys(context))
        if entropy_NH.numel():
            missing = (self.options.floor - entropy_NH).clamp(min=0).mean()
            self.add_loss("entropy_floor", self.options.strength * missing / len(self.head_counts))
