"""Scores of hidden tokens: one more layer and a norm before the vocabulary (BERT, Devlin et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from kit import Dims, Embedding, Layout, Norm, NormSlot, Problem, Site
from kit_head.language import LanguageHead, ScoringOptions


class MaskedOptions(ScoringOptions):
    """Guesses tokens that were hidden from an encoder."""

    use: Literal["masked"] = "masked"
    bias: bool = True
    """Whether each token has a bias of its own."""
    norm: NormSlot | None = None
    """How vectors are normalised before they are compared with tokens; left out, as the model says."""


class MaskedHead(LanguageHead):
    """norm(gelu(dense(x))), then the vocabulary; BERT, RoBERTa, ALBERT and RoFormer end so."""

    options_type = MaskedOptions
    options: MaskedOptions
    default = False

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.dense = nn.Linear(dims.width, dims.width)
        nn.init.xavier_uniform_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)
        chosen = options.norm or site.inherited["norm"]
        self.norm: Norm = site.at("norm", role="norm").build(chosen, dims)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """There must be a norm to take."""
        if options.norm is not None:
            yield from site.at("norm", role="norm").check(options.norm, dims)
        elif "norm" not in site.inherited:
            yield site.problem("no norm is named here or for the model", hint="write norm: ... here or under model")

    def forward(self, x: Tensor, layout: Layout, embedding: Embedding | None) -> Tensor:
        """x: [..., width]; returns [..., vocabulary]."""
        return super().forward(self.norm(F.gelu(self.dense(x))), layout, embedding)
