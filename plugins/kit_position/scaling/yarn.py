"""YaRN scaling of RoPE: low frequencies interpolated, high ones kept, a ramp between (Peng et al. 2023).

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


class YarnOptions(Options):
    """YaRN, by the number of rotations in the original length."""

    use: Literal["yarn"] = "yarn"
    factor: Stretch
    """Factor by which the context is extended."""
    original_length: PositiveInt
    """The context length of the original training."""
    fast: PositiveFloat = 32.0
    """Pairs with more rotations than this are kept (`beta_fast`); more than `slow`."""
    slow: PositiveFloat = 1.0
    """Pairs with fewer rotations than this are interpolated (`beta_slow`)."""
    attention_factor: PositiveFloat | None = None
    """Factor of queries and keys; left out, 0.1 · ln(factor) + 1."""
    whole: bool = True
    """Whether the ends of the ramp are rounded to whole pairs, as in the authors' code (`truncate`)."""


class YarnScaling(Scaling):
    """Blends interpolated and original frequencies by a ramp over pairs, and sharpens attention."""

    options_type = YarnOptions
    options: YarnOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        named = options.attention_factor
        self.gain = 0.1 * math.log(options.factor) + 1.0 if named is None else named

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """`fast` must exceed `slow`."""
        if options.fast <= options.slow:
            yield build_context.problem(
                f"the ramp goes from fast {options.fast:g} to slow {options.slow:g}, and fast must be more than slow",
                "fast",
                hint=f"take fast: {32 * options.slow:g}",
            )

    def frequencies(self, base: float, device: torch.device) -> Tensor:
        """Original frequencies above the ramp, interpolated ones below: [P]."""
        kept_P = frequencies(self.width, base, device)
        first, last = self._pair(self.options.fast, base), self._pair(self.options.slow, base)
        if self.options.whole:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, self.width - 1)
        if first == last:
            last += 0.001  # a step instead of a ramp, without a division by zero
        pairs_P = torch.arange(self.width // 2, dtype=torch.float64, device=device)
        ramp_P = ((pairs_P - first) / (last - first)).clamp(0, 1)
        return kept_P / self.options.factor * ramp_P + kept_P * (1 - ramp_P)

    def _pair(self, turns: float, base: float) -> float:
        """The fractional index of the pair with this many rotations in the original length."""
        waves = self.options.original_length / (turns * 2 * math.pi)
        return self.width * math.log(waves) / (2 * math.log(base))
