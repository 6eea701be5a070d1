"""NTK-aware scaling of RoPE, by a larger base that slows low frequencies most (bloc97, 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from kit import BuildContext, Dims, Options, Problem
from kit_position.scaling.contract import Scaling, Stretch, frequencies


class NtkOptions(Options):
    """NTK-aware scaling with a fixed base; a dynamic one would contradict keys that are cached already."""

    use: Literal["ntk"] = "ntk"
    factor: Stretch
    """Factor by which the context is extended."""


class NtkScaling(Scaling):
    """Slows the lowest frequency by exactly the factor."""

    options_type = NtkOptions
    options: NtkOptions

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """At least two pairs must be rotated."""
        if dims.head_dim <= 2:
            yield build_context.problem(
                "ntk scaling slows low frequencies more than high ones, and only one pair is rotated here",
                hint="choose linear scaling, or a larger rotary_fraction",
            )

    def frequencies(self, base: float, device: torch.device) -> Tensor:
        """Frequencies of the base · factor^(width / (width - 2)): [P]."""
        return frequencies(self.width, base * self.options.factor ** (self.width / (self.width - 2)), device)
