"""Long waves squeezed, short waves kept, a blend between: Llama 3.1 (The Llama 3 Herd of Models, 2024).

Shapes: P pairs that turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from kit import Dims, Options, Problem, Site
from kit_position.scaling.contract import Scaling, Stretch, frequencies


class Llama3Options(Options):
    """Waves by how many of them fit in the original length."""

    use: Literal["llama3"] = "llama3"
    factor: Stretch = 8.0
    """How many times as long texts become."""
    original_length: PositiveInt = 8192
    """The length that the model was trained on."""
    low: PositiveFloat = 1.0
    """Where fewer waves fit, they are squeezed."""
    high: PositiveFloat = 4.0
    """Where more waves fit, they are kept; more than `low`."""


class Llama3Scaling(Scaling):
    """Blended in proportion between `low` and `high`."""

    options_type = Llama3Options
    options: Llama3Options

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """There must be room for a blend."""
        if options.high <= options.low:
            yield site.problem(
                f"waves are blended from low {options.low:g} to high {options.high:g}, and high must be more than low",
                "high",
                hint=f"take high: {4 * options.low:g}",
            )

    def frequencies(self, base: float, device: torch.device) -> Tensor:
        """Kept where waves are short, squeezed where they are long."""
        kept_P = frequencies(self.width, base, device)
        fitting_P = self.options.original_length * kept_P / (2 * math.pi)
        share_P = ((fitting_P - self.options.low) / (self.options.high - self.options.low)).clamp(0, 1)
        return kept_P / self.options.factor * (1 - share_P) + kept_P * share_P
