"""A score for every token of the vocabulary: the next one in a decoder, the hidden ones in an encoder.

Capped scores: Gemma 2 (Gemma Team 2024), section 2.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import Dims, Embedding, Head, KitError, Layout, Options, Site, linear


class ScoringOptions(Options):
    """What heads that score the vocabulary have in common."""

    bias: bool = False
    """Whether each token has a bias of its own (Marian, BERT)."""
    scale: PositiveFloat | Literal["width"] = 1.0
    """What vectors are multiplied by before they are compared with tokens: a number (Cohere, Granite), or `width` for
    1 / sqrt(width), which suits a table shared with the input (T5, PaLM)."""
    cap: PositiveFloat | None = None
    """Bends scores into ±cap: cap · tanh(score / cap); left out, no cap."""


class LanguageOptions(ScoringOptions):
    """Scores over the vocabulary."""

    use: Literal["language"] = "language"


class LanguageHead(Head):
    """The shared embedding's way back where a recipe ties it, else a projection of its own."""

    options_type: ClassVar[type[Options]] = LanguageOptions
    options: ScoringOptions
    default = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        if dims.vocabulary is None:
            raise KitError("a language head needs to know the vocabulary")
        if site.role != "tied":
            self.projection = nn.Parameter(torch.empty(dims.vocabulary, dims.width))
            nn.init.xavier_uniform_(self.projection)
        self.bias = nn.Parameter(torch.zeros(dims.vocabulary)) if options.bias else None
        self.factor = dims.width**-0.5 if options.scale == "width" else options.scale

    def forward(self, x: Tensor, layout: Layout, embedding: Embedding | None) -> Tensor:
        """x: [..., width]; returns [..., vocabulary]."""
        x = x * self.factor if self.factor != 1.0 else x
        if embedding is None:
            scores = linear(x, self.projection, self.bias)
        else:
            scores = embedding.project(x)
            scores = scores if self.bias is None else scores + self.bias
        cap = self.options.cap
        return scores if cap is None else cap * torch.tanh(scores / cap)

    def matrix(self, embedding: Embedding | None) -> tuple[Tensor, Tensor | None] | None:
        """The projection or the shared table, unless vectors or scores are bent on the way."""
        bent = self.factor != 1.0 or self.options.cap is not None or type(self).forward is not LanguageHead.forward
        weight = self.projection if embedding is None else embedding.matrix()
        return None if bent or weight is None else (weight, self.bias)
