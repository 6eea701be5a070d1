"""Keeps texts apart that share a row: packed documents see themselves only."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from kit import Facts, Mask, Options


class DocumentOptions(Options):
    """A query sees keys of its own document."""

    use: Literal["document"] = "document"


class DocumentMask(Mask):
    """The batch says with the fact `document` which one each token belongs to, as a number."""

    options_type = DocumentOptions
    needs = ("document",)

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """The same number on both sides."""
        return facts.query["document"] == facts.key["document"]
