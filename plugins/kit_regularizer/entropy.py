"""Sharpens attention, or spreads it: the entropy of its weights as a term of the loss."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from kit import Regularizer, RegularizerOptions, Scope, Site
from kit_regularizer.spread import entropy_share


class EntropyOptions(RegularizerOptions):
    """Options of `entropy`: a positive strength sharpens attention, a negative one spreads it."""

    use: Literal["entropy"] = "entropy"


class EntropyRegularizer(Regularizer):
    """The mean over queries, heads and layers of the entropy, as a share of the most it could be: from 0 to 1."""

    options_type = EntropyOptions
    options: EntropyOptions

    def weights(self, site: Site, weights_BHQK: Tensor, scope: Scope) -> None:
        """Add this layer's part."""
        entropy_NH = entropy_share(weights_BHQK, self.seen(scope))
        if entropy_NH.numel():
            self.add_loss("entropy", self.options.strength * entropy_NH.mean() / len(self.shaped))
