"""Waves of falling frequency, added to tokens: Attention Is All You Need (Vaswani et al. 2017), section 3.5."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor

from kit import Dims, Options, Position, Problem, Site
from kit_position.scaling.contract import frequencies

WaveLayout: TypeAlias = Literal["interleaved", "concatenated"]

LONGEST_TABLE = 1 << 16
"""Waves of positions up to here are kept; those of later ones are computed as they come."""


class SinusoidalOptions(Options):
    """Positions as waves, which need no training and have no end."""

    use: Literal["sinusoidal"] = "sinusoidal"
    layout: WaveLayout = "interleaved"
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
        """x: [..., D], at: [...]; looked up where that is possible without making a device wait."""
        if at.device.type != "cpu" or at.dtype != torch.long or not at.numel() or torch.compiler.is_compiling():
            return x + self.waves(at).to(x.dtype)
        least, most = (int(each) for each in at.aminmax())
        if least < 0 or most >= LONGEST_TABLE:
            return x + self.waves(at).to(x.dtype)
        length = max(64, 1 << most.bit_length())
        table = waves_up_to(length, self.dims.width, self.options.longest_wave, self.options.layout, x.dtype)
        return x + F.embedding(at, table)

    def waves(self, at: Tensor) -> Tensor:
        """The wave of each position: [..., D]."""
        return waves_of(at, self.dims.width, self.options.longest_wave, self.options.layout)


def waves_of(at: Tensor, width: int, longest_wave: float, layout: WaveLayout) -> Tensor:
    """The wave of each position: [..., D]; computed in float64 so that far positions stay exact."""
    angles = at.unsqueeze(-1).to(torch.float64) * frequencies(width, longest_wave, at.device)
    parts = angles.sin(), angles.cos()
    return torch.stack(parts, -1).flatten(-2) if layout == "interleaved" else torch.cat(parts, -1)


@lru_cache(maxsize=8)
def waves_up_to(length: int, width: int, longest_wave: float, layout: WaveLayout, dtype: torch.dtype) -> Tensor:
    """The waves of the first positions on a CPU, made once for all parts: [length, D]."""
    with torch.inference_mode(False):
        return waves_of(torch.arange(length, device="cpu"), width, longest_wave, layout).to(dtype)
