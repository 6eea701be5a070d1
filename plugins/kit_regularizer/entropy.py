"""Entropy regularization: the normalized entropy of attention weights as an auxiliary loss.

Shapes: B sequences, H heads, Q queries, K keys, N queries with more than one visible key.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit import AttentionContext, BuildContext, Regularizer, RegularizerOptions


class EntropyOptions(RegularizerOptions):
    """Options of `entropy`: a positive strength sharpens attention, a negative one spreads it."""

    use: Literal["entropy"] = "entropy"


class EntropyRegularizer(Regularizer):
    """The mean normalized entropy, from 0 to 1, over queries, heads and layers."""

    options_type = EntropyOptions
    options: EntropyOptions

    def weights(self, build_context: BuildContext, weights_BHQK: Tensor, context: AttentionContext) -> None:
        """Add the auxiliary loss of this layer."""
        entropy_NH = normalized_entropy(weights_BHQK, self.visible_keys(context))
        if entropy_NH.numel():
            self.add_loss("entropy", self.options.strength * entropy_NH.mean() / len(self.head_counts))


def normalized_entropy(weights_BHQK: Tensor, visible_keys_BQ: Tensor) -> Tensor:
    """[N, H]: the entropy of each query with more than one visible key, divided by its maximum ln n."""
    several_BQ = visible_keys_BQ > 1
    weights_NHK = weights_BHQK.transpose(1, 2)[several_BQ]
    maximum_N1 = visible_keys_BQ[several_BQ].to(weights_NHK.dtype).log()[:, None]
    floor = torch.finfo(weights_NHK.dtype).tiny  # the gradient of w ln w diverges at 0
    entropy_NH: Tensor = -(weights_NHK * weights_NHK.clamp(min=floor).log()).sum(-1) / maximum_N1
    return entropy_NH
