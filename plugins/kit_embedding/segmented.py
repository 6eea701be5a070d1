"""Token embeddings plus segment (token type) embeddings: BERT (Devlin et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import BuildContext, Dims, KitError
from kit_embedding.token import TableOptions, TokenEmbedding


class SegmentedOptions(TableOptions):
    """Token and segment embeddings; the token feature `segment` says the segment of each token."""

    use: Literal["segmented"] = "segmented"
    segments: PositiveInt = 2
    """Number of segments; without the feature all tokens are in the first."""


class SegmentedEmbedding(TokenEmbedding):
    """Adds a segment embedding to each token; tied logits use the token table alone."""

    options_type = SegmentedOptions
    options: SegmentedOptions
    default = False
    reads = ("segment",)

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.segments = nn.Parameter(torch.empty(options.segments, dims.width))
        nn.init.normal_(self.segments, std=dims.width**-0.5)

    def mark(self, x: Tensor, features: Mapping[str, Tensor]) -> Tensor:
        """x: [..., width]; features: `segment` [...], where the batch has it. Returns x plus segment embeddings."""
        segment = features.get("segment")
        if segment is None:
            return x + self.segments[0]
        looked_at = segment.device.type == "cpu" and not torch.compiler.is_exporting()
        if looked_at and segment.numel() and int(segment.max()) >= self.options.segments:
            raise KitError(
                f"a token is in segment {int(segment.max())}, and the embedding has {self.options.segments}, "
                f"counted from 0; write segments: {int(segment.max()) + 1}"
            )
        return x + F.embedding(segment, self.segments)
