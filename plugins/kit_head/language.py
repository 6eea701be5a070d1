"""A score for every token of the vocabulary: the next one in a decoder, the hidden ones in an encoder."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import Dims, Embedding, Head, KitError, Layout, Options, Site


class LanguageOptions(Options):
    """Scores over the vocabulary."""

    use: Literal["language"] = "language"
    bias: bool = False
    """Whether each token has a bias of its own (Marian, BERT)."""


class LanguageHead(Head):
    """The shared embedding's way back where a recipe ties it, else a projection of its own."""

    options_type = LanguageOptions
    options: LanguageOptions
    default = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        if dims.vocabulary is None:
            raise KitError("a language head needs to know the vocabulary")
        if site.role != "tied":
            self.projection = nn.Parameter(torch.empty(dims.vocabulary, dims.width))
            nn.init.xavier_uniform_(self.projection)
        self.bias = nn.Parameter(torch.zeros(dims.vocabulary)) if options.bias else None

    def forward(self, x: Tensor, layout: Layout, embedding: Embedding | None) -> Tensor:
        """x: [..., width]; returns [..., vocabulary]."""
        if embedding is None:
            return nn.functional.linear(x, self.projection, self.bias)
        scores = embedding.project(x)
        return scores if self.bias is None else scores + self.bias
