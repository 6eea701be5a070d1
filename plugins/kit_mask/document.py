"""Document mask for packed sequences: tokens see their own document only."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from kit import Mask, MaskFeatures, Options


class DocumentOptions(Options):
    """Document mask: a query sees keys of its own document."""

    use: Literal["document"] = "document"


class DocumentMask(Mask):
    """Compares the token feature `document`, the index of each token's document."""

    options_type = DocumentOptions
    needs = ("document",)

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """document(q) == document(k)."""
        return features.query["document"] == features.key["document"]
