"""Prefix-LM mask, bidirectional within a prefix and causal after it: UniLM (Dong et al. 2019), T5 (Raffel 2020)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from kit import BatchLayout, KitError, Mask, MaskFeatures, Options


class PrefixOptions(Options):
    """Prefix-LM mask: tokens of the prefix see each other, later tokens see themselves and earlier ones."""

    use: Literal["prefix"] = "prefix"


class PrefixMask(Mask):
    """The token feature `prefix` marks the prefix.

    It does not hide the future within the prefix, and is autoregressive all the same: the prefix is given, and no
    generated token is visible before its time. Decoding reads the prefix in one step (prefill).
    """

    options_type = PrefixOptions
    needs = ("prefix",)

    @property
    def is_autoregressive(self) -> bool:
        """True: only tokens of the given prefix are visible ahead of time."""
        return True

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """k <= q, or both in the prefix."""
        return (k <= q) | (features.query["prefix"].bool() & features.key["prefix"].bool())

    def check_step(self, new: BatchLayout) -> None:
        """The whole prefix must be read in the first step: tokens that are cached already could not see the rest."""
        prefix_BL = new.features.get("prefix")
        if prefix_BL is not None and prefix_BL.device.type == "cpu" and bool(prefix_BL.any()):
            raise KitError(
                "a token of the prefix was read after others had been read already, which could not see it any more; "
                "give the whole prefix in the first step, and prefix=False for every token after it"
            )
