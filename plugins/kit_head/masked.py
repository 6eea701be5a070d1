"""Masked language modeling head: a dense layer, GELU and a norm before the vocabulary (BERT, Devlin et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from kit import BatchLayout, BuildContext, Dims, Embedding, Norm, NormSlot, Problem
from kit_head.language import LanguageHead, ScoringOptions


class MaskedOptions(ScoringOptions):
    """Masked language modeling head."""

    use: Literal["masked"] = "masked"
    bias: bool = True
    """Whether there is a bias per token."""
    norm: NormSlot | None = None
    """The norm before the vocabulary projection; left out, the model's."""


class MaskedHead(LanguageHead):
    """norm(gelu(dense(x))), then vocabulary logits, as in BERT, RoBERTa and RoFormer.

    ALBERT's head differs: it has the tanh approximation of GELU, and its dense layer leads to the width of the table.
    """

    options_type = MaskedOptions
    options: MaskedOptions
    default = False

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.dense = nn.Linear(dims.width, dims.width)
        nn.init.xavier_uniform_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)
        chosen = options.norm or build_context.inherited["norm"]
        self.norm: Norm = build_context.at("norm", role="norm").build(chosen, dims)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """A norm must be named here or for the model."""
        if options.norm is not None:
            yield from build_context.at("norm", role="norm").check(options.norm, dims)
        elif "norm" not in build_context.inherited:
            yield build_context.problem(
                "no norm is named here or for the model", hint="write norm: ... here or under model"
            )

    def forward(self, x: Tensor, layout: BatchLayout, embedding: Embedding | None) -> Tensor:
        """x: [..., width]; logits [..., vocabulary]."""
        return super().forward(self.norm(F.gelu(self.dense(x))), layout, embedding)
