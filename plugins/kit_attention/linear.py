"""Linear attention with elu(x) + 1 as its feature map: Transformers are RNNs (Katharopoulos et al. 2020)."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from kit import MultiHeadOptions
from kit_attention.kernelized import KernelizedAttention


class LinearOptions(MultiHeadOptions):
    """Sums over keys in place of weights: a state of constant size, and cost that grows with the text alone."""

    use: Literal["linear"] = "linear"


class LinearAttention(KernelizedAttention):
    """Weights are proportional to (elu(q) + 1) · (elu(k) + 1)."""

    options_type = LinearOptions
    options: LinearOptions

    def features(self, x_BHLE: Tensor, side: Literal["query", "key"]) -> Tensor:
        """elu(x) + 1, which is never negative; as many features as numbers."""
        return F.elu(x_BHLE) + 1
