"""A prefix that is read both ways, before a text that is written: UniLM (Dong et al. 2019); T5 (Raffel et al. 2020)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from kit import Facts, KitError, Layout, Mask, Options


class PrefixOptions(Options):
    """Tokens of the prefix see each other; everything else sees itself and what came before."""

    use: Literal["prefix"] = "prefix"


class PrefixMask(Mask):
    """The batch says with the fact `prefix` which tokens belong to it.

    It does not hide the future, since the prefix looks ahead within itself. A text can be written under it all the
    same: the prefix is given, and no written token is seen before its time. The prefix is then read in one step.
    """

    options_type = PrefixOptions
    needs = ("prefix",)

    @property
    def writable(self) -> bool:
        """What is seen ahead of its time was given."""
        return True

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """k <= q, or both in the prefix."""
        return (k <= q) | (facts.query["prefix"].bool() & facts.key["prefix"].bool())

    def check_step(self, new: Layout) -> None:
        """The prefix is read in the first step: who was read before could not see what comes later."""
        prefix_BL = new.facts.get("prefix")
        if prefix_BL is not None and prefix_BL.device.type == "cpu" and bool(prefix_BL.any()):
            raise KitError(
                "a token of the prefix was read after others had been read already, which could not see it any more; "
                "give the whole prefix in the first step, and prefix=False for every token after it"
            )
