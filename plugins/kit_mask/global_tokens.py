"""Global-token mask: some tokens see all and are seen by all; Longformer (Beltagy et al. 2020), ETC (2020)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import BuildContext, Dims, Mask, MaskFeatures, Options, Problem


class GlobalTokensOptions(Options):
    """Global tokens, for use beside another mask: `any: [window, global_tokens]`."""

    use: Literal["global_tokens"] = "global_tokens"
    count: PositiveInt | None = 1
    """Number of leading global tokens; null for those that the token feature `global` marks."""


class GlobalTokensMask(Mask):
    """Allows pairs in which the query or the key is global."""

    options_type = GlobalTokensOptions
    options: GlobalTokensOptions

    def __init__(
        self, options: Any = None, dims: Dims | None = None, build_context: BuildContext | None = None
    ) -> None:
        super().__init__(options, dims, build_context)
        self.needs = ("global",) if self.options.count is None else ()

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Fewer tokens than the maximum length must be global, or nothing would be hidden."""
        if options.count is not None and options.count >= dims.length:
            yield build_context.problem(
                f"{options.count} tokens are global and the longest sequence has {dims.length}, so nothing would be "
                "hidden",
                "count",
                hint=f"take a count below {dims.length}",
            )

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """Query or key is global."""
        if self.options.count is None:
            return torch.logical_or(features.query["global"], features.key["global"])
        return (q < self.options.count) | (k < self.options.count)
