"""Waves of falling frequency, added to tokens: Attention Is All You Need (Vaswani et al. 2017), section 3.5."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor

from kit import Dims, Options, Position, Problem, Site
from kit_position.scaling.contract import frequencies


class SinusoidalOptions(Options):
    """Positions as waves, which need no training and have no end."""

    use: Literal["sinusoidal"] = "sinusoidal"
    layout: Literal["interleaved", "concatenated"] = "interleaved"
    """Sine and cosine side by side (the paper), or all sines and then all cosines (Marian, fairseq)."""
    longest_wave: PositiveFloat = 10_000.0
    """The longest wavelength, over 2 pi."""


class SinusoidalPosition(Position):
    """Adds sin(p / wave^(2i/width)) and its cosine."""

    options_type = SinusoidalOptions
    options: SinusoidalOptions
    yardstick = True

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Waves come in pairs."""
        if dims.width % 2:
            yield site.problem(
                f"waves come in pairs, and the width {dims.width} is odd", hint=f"take model.width={dims.width + 1}"
            )

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """x: [..., D], at: [...]; the waves are computed in float64 so that far positions stay exact."""
        return x + self.waves(at).to(x.dtype)

    def waves(self, at: Tensor) -> Tensor:
        """The wave of each position: [..., D]."""
        angles = at.unsqueeze(-1).to(torch.float64) * frequencies(self.dims.width, self.options.longest_wave, at.device)
        parts = angles.sin(), angles.cos()
        if self.options.layout == "interleaved":
            return torch.stack(parts, -1).flatten(-2)
        return torch.cat(parts, -1)
