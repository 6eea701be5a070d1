"""A few tokens that see all and are seen by all: Longformer (Beltagy et al. 2020); ETC (Ainslie et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import Dims, Facts, Mask, Options, Problem, Site


class GlobalTokensOptions(Options):
    """For use beside another mask: `any: [window, global_tokens]`."""

    use: Literal["global_tokens"] = "global_tokens"
    count: PositiveInt | None = 1
    """How many of the first tokens are global; null for those that the batch marks with the fact `global`."""


class GlobalTokensMask(Mask):
    """Allows a pair in which one of the two is global."""

    options_type = GlobalTokensOptions
    options: GlobalTokensOptions

    def __init__(self, options: Any = None, dims: Dims | None = None, site: Site | None = None) -> None:
        super().__init__(options, dims, site)
        self.needs = ("global",) if self.options.count is None else ()

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """If every token is global, nothing is hidden."""
        if options.count is not None and options.count >= dims.length:
            yield site.problem(
                f"{options.count} tokens are global and the longest text has {dims.length}, so nothing would be hidden",
                "count",
                hint=f"take a count below {dims.length}",
            )

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """Query or key is global."""
        if self.options.count is None:
            return torch.logical_or(facts.query["global"], facts.key["global"])
        return (q < self.options.count) | (k < self.options.count)
