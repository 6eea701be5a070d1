"""A larger base, so that slow pairs slow down by the factor and fast ones hardly: NTK-aware scaling (bloc97, 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from kit import Dims, Options, Problem, Site
from kit_position.scaling.contract import Scaling, Stretch, frequencies


class NtkOptions(Options):
    """The base is fixed; one that follows a text's length would contradict keys that were turned before it grew."""

    use: Literal["ntk"] = "ntk"
    factor: Stretch
    """How many times as long texts become."""


class NtkScaling(Scaling):
    """The slowest pair slows down by exactly the factor."""

    options_type = NtkOptions
    options: NtkOptions

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """There must be slow pairs and fast ones."""
        if dims.head_width <= 2:
            yield site.problem(
                "ntk scaling slows slow pairs more than fast ones, and only one pair turns here",
                hint="choose linear scaling, or turn a larger share",
            )

    def frequencies(self, base: float, device: torch.device) -> Tensor:
        """base · factor^(width / (width - 2)) in place of the base."""
        return frequencies(self.width, base * self.options.factor ** (self.width / (self.width - 2)), device)
