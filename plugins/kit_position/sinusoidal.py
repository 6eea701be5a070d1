"""Sinusoidal position embeddings, added to token embeddings: Attention Is All You Need (2017), section 3.5."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor

from kit import BuildContext, Dims, Options, Position, Problem
from kit_position.scaling.contract import frequencies

WaveLayout: TypeAlias = Literal["interleaved", "concatenated"]

LONGEST_TABLE = 1 << 16
"""Positions up to here are cached; later ones are computed on demand."""


class SinusoidalOptions(Options):
    """Sinusoidal position embeddings, fixed and unbounded."""

    use: Literal["sinusoidal"] = "sinusoidal"
    layout: WaveLayout = "interleaved"
    """Sines and cosines alternating (the paper), or all sines before all cosines (Marian, fairseq)."""
    longest_wave: PositiveFloat = 10_000.0
    """Base: the longest wavelength over 2 pi."""


class SinusoidalPosition(Position):
    """Adds sin and cos of p / base^(2i/width)."""

    options_type = SinusoidalOptions
    options: SinusoidalOptions
    is_baseline = True

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Sines and cosines come in pairs, so the width must be even."""
        if dims.width % 2:
            yield build_context.problem(
                f"waves come in pairs, and the width {dims.width} is odd", hint=f"take model.width={dims.width + 1}"
            )

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """x: [..., D], at: [...]; looked up in a table where that needs no device synchronisation."""
        if at.device.type != "cpu" or at.dtype != torch.long or not at.numel() or torch.compiler.is_compiling():
            return x + self.waves(at).to(x.dtype)
        least, most = (int(each) for each in at.aminmax())
        if least < 0 or most >= LONGEST_TABLE:
            return x + self.waves(at).to(x.dtype)
        length = max(64, 1 << most.bit_length())
        table = waves_up_to(length, self.dims.width, self.options.longest_wave, self.options.layout, x.dtype)
        return x + F.embedding(at, table)

    def waves(self, at: Tensor) -> Tensor:
        """Embedding of each position: [..., D]."""
        return waves_of(at, self.dims.width, self.options.longest_wave, self.options.layout)


def waves_of(at: Tensor, width: int, longest_wave: float, layout: WaveLayout) -> Tensor:
    """Embedding of each position [..., D], computed in float64."""
    angles = at.unsqueeze(-1).to(torch.float64) * frequencies(width, longest_wave, at.device)
    parts = angles.sin(), angles.cos()
    return torch.stack(parts, -1).flatten(-2) if layout == "interleaved" else torch.cat(parts, -1)


@lru_cache(maxsize=8)
def waves_up_to(length: int, width: int, longest_wave: float, layout: WaveLayout, dtype: torch.dtype) -> Tensor:
    """Table of the first positions on the CPU, shared by all parts: [length, D]."""
    with torch.inference_mode(False):
        return waves_of(torch.arange(length, device="cpu"), width, longest_wave, layout).to(dtype)
