"""Language modeling head: logits over the vocabulary, by the tied embedding or a projection of its own.

Logit soft-capping: Gemma 2 (Gemma Team 2024), section 2.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import BatchLayout, BuildContext, Dims, Embedding, Head, KitError, Options, linear


class ScoringOptions(Options):
    """Options of heads with logits over the vocabulary."""

    bias: bool = False
    """Whether there is a bias per token (Marian, BERT)."""
    scale: PositiveFloat | Literal["width"] = 1.0
    """Factor of the vectors before the projection: a number (Cohere, Granite), or `width` for 1 / sqrt(width), which
    suits tied embeddings (T5, PaLM)."""
    logit_softcap: PositiveFloat | None = None
    """Soft cap c of logits, c · tanh(logit / c); left out, none."""


class LanguageOptions(ScoringOptions):
    """Language modeling head."""

    use: Literal["language"] = "language"


class LanguageHead(Head):
    """Logits by the tied embedding, or by a projection of its own."""

    options_type: ClassVar[type[Options]] = LanguageOptions
    options: ScoringOptions
    default = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        if dims.vocabulary is None:
            raise KitError("a language head needs to know the vocabulary")
        if build_context.role != "tied":
            self.projection = nn.Parameter(torch.empty(dims.vocabulary, dims.width))
            nn.init.xavier_uniform_(self.projection)
        self.bias = nn.Parameter(torch.zeros(dims.vocabulary)) if options.bias else None
        self.factor = dims.width**-0.5 if options.scale == "width" else options.scale

    def forward(self, x: Tensor, layout: BatchLayout, embedding: Embedding | None) -> Tensor:
        """x: [..., width]; logits [..., vocabulary]."""
        x = x * self.factor if self.factor != 1.0 else x
        if embedding is None:
            logits = linear(x, self.projection, self.bias)
        else:
            logits = embedding.project(x)
            logits = logits if self.bias is None else logits + self.bias
        logit_softcap = self.options.logit_softcap
        return logits if logit_softcap is None else logit_softcap * torch.tanh(logits / logit_softcap)

    def keeps_logits(self, embedding: Embedding | None) -> bool:
        """Not after a plain matrix product; tanh reads its result."""
        return self.options.logit_softcap is not None or (embedding is not None and embedding.matrix() is None)

    def matrix(self, embedding: Embedding | None) -> tuple[Tensor, Tensor | None] | None:
        """The projection or the tied table and the bias, unless vectors are scaled or logits capped."""
        modified = (
            self.factor != 1.0
            or self.options.logit_softcap is not None
            or type(self).forward is not LanguageHead.forward
        )
        weight = self.projection if embedding is None else embedding.matrix()
        return None if modified or weight is None else (weight, self.bias)
