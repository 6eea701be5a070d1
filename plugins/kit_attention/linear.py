"""Linear attention with the feature map elu(x) + 1: Transformers are RNNs (Katharopoulos et al. 2020)."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from kit import MultiHeadOptions
from kit_attention.kernelized import KernelizedAttention


class LinearOptions(MultiHeadOptions):
    """Linear attention: cost linear in the length, and a decoding cache of constant size."""

    use: Literal["linear"] = "linear"


class LinearAttention(KernelizedAttention):
    """Weights are proportional to (elu(q) + 1) · (elu(k) + 1)."""

    options_type = LinearOptions
    options: LinearOptions

    def features(self, x_BHLE: Tensor, side: Literal["query", "key"]) -> Tensor:
        """elu(x) + 1 >= 0: [B, H, L, E]."""
        return F.elu(x_BHLE) + 1
