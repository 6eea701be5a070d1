"""Slow pairs squeezed, fast pairs kept, a ramp between: YaRN (Peng et al. 2023).

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


class YarnOptions(Options):
    """Pairs by how often they turn around in a text of the original length."""

    use: Literal["yarn"] = "yarn"
    factor: Stretch
    """How many times as long texts become."""
    original_length: PositiveInt
    """The length that the model was trained on."""
    fast: PositiveFloat = 32.0
    """Pairs that turn around more often than this are kept (beta); more than `slow`."""
    slow: PositiveFloat = 1.0
    """Pairs that turn around less often than this are squeezed (alpha)."""
    attention_factor: PositiveFloat | None = None
    """What queries and keys are multiplied by; left out, 0.1 · ln(factor) + 1."""
    whole: bool = True
    """Whether the ramp starts and ends at whole pairs, as in the authors' code."""


class YarnScaling(Scaling):
    """A mixture of kept and squeezed, by pair; attention is sharpened for longer texts."""

    options_type = YarnOptions
    options: YarnOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        named = options.attention_factor
        self.gain = 0.1 * math.log(options.factor) + 1.0 if named is None else named

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """The ramp must lead down."""
        if options.fast <= options.slow:
            yield site.problem(
                f"the ramp goes from fast {options.fast:g} to slow {options.slow:g}, and fast must be more than slow",
                "fast",
                hint=f"take fast: {32 * options.slow:g}",
            )

    def frequencies(self, base: float, device: torch.device) -> Tensor:
        """Kept above the ramp, squeezed below."""
        kept_P = frequencies(self.width, base, device)
        first, last = self._pair(self.options.fast, base), self._pair(self.options.slow, base)
        if self.options.whole:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, self.width - 1)
        if first == last:
            last += 0.001  # a step instead of a ramp, without dividing by nothing
        pairs_P = torch.arange(self.width // 2, dtype=torch.float64, device=device)
        squeezed_P = ((pairs_P - first) / (last - first)).clamp(0, 1)
        return kept_P / self.options.factor * squeezed_P + kept_P * (1 - squeezed_P)

    def _pair(self, turns: float, base: float) -> float:
        """The pair, as a broken number, that turns around so often in the original length."""
        waves = self.options.original_length / (turns * 2 * math.pi)
        return self.width * math.log(waves) / (2 * math.log(base))
