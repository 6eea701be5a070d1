"""Llama 3.1 scaling of RoPE: low frequencies interpolated, high ones kept (The Llama 3 Herd of Models, 2024).

Shapes: P rotated pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from kit import BuildContext, Dims, Options, Problem
from kit_position.scaling.contract import Scaling, Stretch, frequencies


class Llama3Options(Options):
    """Llama 3.1 scaling, by the number of wavelengths in the original length."""

    use: Literal["llama3"] = "llama3"
    factor: Stretch = 8.0
    """Factor by which the context is extended."""
    original_length: PositiveInt = 8192
    """The context length of the original training."""
    low: PositiveFloat = 1.0
    """Frequencies with fewer wavelengths are interpolated (`low_freq_factor`)."""
    high: PositiveFloat = 4.0
    """Frequencies with more wavelengths are kept (`high_freq_factor`); more than `low`."""


class Llama3Scaling(Scaling):
    """Blends interpolated and original frequencies between `low` and `high`."""

    options_type = Llama3Options
    options: Llama3Options

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """`high` must exceed `low`."""
        if options.high <= options.low:
            yield build_context.problem(
                f"waves are blended from low {options.low:g} to high {options.high:g}, and high must be more than low",
                "high",
                hint=f"take high: {4 * options.low:g}",
            )

    def frequencies(self, base: float, device: torch.device) -> Tensor:
        """Original high frequencies, interpolated low ones: [P]."""
        kept_P = frequencies(self.width, base, device)
        fitting_P = self.options.original_length * kept_P / (2 * math.pi)
        blend_P = ((fitting_P - self.options.low) / (self.options.high - self.options.low)).clamp(0, 1)
        return kept_P / self.options.factor * (1 - blend_P) + kept_P * blend_P
