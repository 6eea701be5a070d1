"""Token vectors with a vector for the segment that a token is in, first text or second (BERT, Devlin et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import Dims, KitError, Site
from kit_embedding.token import TableOptions, TokenEmbedding


class SegmentedOptions(TableOptions):
    """A table of token vectors and a small one of segments; a batch tells them apart by the fact `segment`."""

    use: Literal["segmented"] = "segmented"
    segments: PositiveInt = 2
    """How many segments there are; tokens of a batch that does not say are all in the first."""


class SegmentedEmbedding(TokenEmbedding):
    """Adds the segment's vector on the way in; the way back is the token's alone."""

    options_type = SegmentedOptions
    options: SegmentedOptions
    default = False
    reads = ("segment",)

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.segments = nn.Parameter(torch.empty(options.segments, dims.width))
        nn.init.normal_(self.segments, std=dims.width**-0.5)

    def mark(self, x: Tensor, facts: Mapping[str, Tensor]) -> Tensor:
        """x: [..., width]; facts: the `segment` of each token, [...], where the batch says it."""
        segment = facts.get("segment")
        if segment is None:
            return x + self.segments[0]
        looked_at = segment.device.type == "cpu" and not torch.compiler.is_exporting()
        if looked_at and segment.numel() and int(segment.max()) >= self.options.segments:
            raise KitError(
                f"a token is in segment {int(segment.max())}, and the embedding has {self.options.segments}, "
                f"counted from 0; write segments: {int(segment.max()) + 1}"
            )
        return x + F.embedding(segment, self.segments)
