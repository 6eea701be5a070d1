"""Causal mask, which hides later keys: Attention Is All You Need (Vaswani et al. 2017), section 3.2.3."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from kit import Mask, MaskFeatures, Options


class CausalOptions(Options):
    """Causal mask: a query sees itself and earlier tokens."""

    use: Literal["causal"] = "causal"


class CausalMask(Mask):
    """Allows keys no later than the query."""

    options_type = CausalOptions
    is_baseline = True
    shape = "causal"
    hides_future = True

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """k <= q."""
        return k <= q
