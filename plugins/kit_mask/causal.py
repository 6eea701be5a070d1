"""Hides the future: Attention Is All You Need (Vaswani et al. 2017), section 3.2.3."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from kit import Facts, Mask, Options


class CausalOptions(Options):
    """A query sees itself and what came before."""

    use: Literal["causal"] = "causal"


class CausalMask(Mask):
    """Allows keys no later than the query."""

    options_type = CausalOptions
    yardstick = True
    shape = "causal"
    hides_future = True

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """k <= q."""
        return k <= q
