"""Learned absolute position embeddings, added to token embeddings (Gehring et al. 2017; Devlin et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import BuildContext, Dims, KitError, Options, Position, Problem


class LearnedOptions(Options):
    """Learned absolute position embeddings."""

    use: Literal["learned"] = "learned"
    length: PositiveInt | None = None
    """Number of positions; left out, the model's length."""


class LearnedPosition(Position):
    """Adds a learned vector per position; longer sequences are refused."""

    options_type = LearnedOptions
    options: LearnedOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.longest = options.length or dims.length
        self.table = nn.Parameter(torch.empty(self.longest, dims.width))
        nn.init.normal_(self.table, std=dims.width**-0.5)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The table must cover the model's length."""
        if options.length is not None and options.length < dims.length:
            yield build_context.problem(
                f"the table has {options.length} positions and the model is made for {dims.length} tokens",
                "length",
                hint=f"write length: {dims.length} here, or model.length={options.length}",
            )

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """x: [..., D], at: [...]; x + table[at]."""
        assert self.longest is not None
        looked_at = at.device.type == "cpu" and not torch.compiler.is_exporting()
        if looked_at and at.numel() and int(at.max()) >= self.longest:
            raise KitError(
                f"a sequence has a token at position {int(at.max())}, and the learned table ends at "
                f"{self.longest - 1}; "
                f"shorten the sequence, or train with model.length={int(at.max()) + 1}"
            )
        return x + self.table[at]
