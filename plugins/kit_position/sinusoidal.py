"""Waves of falling frequency, added to tokens: Attention Is All You Need (Vaswani et al. 2017), section 3.5."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor

from kit import Dims, Options, Position, Problem, Site
from kit_position.scaling.contract import frequencies

LONGEST_TABLE = 1 << 16
"""Waves of positions up to here are kept; those of later ones are computed as they come."""


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

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self._table: Tensor | None = None

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """x: [..., D], at: [...]."""
        table = self._known(x, at)
        return x + (self.waves(at).to(x.dtype) if table is None else F.embedding(at, table))

    def _known(self, x: Tensor, at: Tensor) -> Tensor | None:
        """The waves of all positions up to these, made once; None where finding out how far is dear."""
        if at.device.type != "cpu" or at.dtype != torch.long or not at.numel() or torch.compiler.is_compiling():
            return None
        least, most = (int(each) for each in at.aminmax())
        if least < 0 or most >= LONGEST_TABLE:
            return None
        table = self._table
        if table is None or table.shape[0] <= most or table.dtype != x.dtype:
            length = max(64, 1 << most.bit_length())
            table = self._table = self.waves(torch.arange(length)).to(x.dtype)
        return table

    def waves(self, at: Tensor) -> Tensor:
        """The wave of each position: [..., D]; computed in float64 so that far positions stay exact."""
        angles = at.unsqueeze(-1).to(torch.float64) * frequencies(self.dims.width, self.options.longest_wave, at.device)
        parts = angles.sin(), angles.cos()
        if self.options.layout == "interleaved":
            return torch.stack(parts, -1).flatten(-2)
        return torch.cat(parts, -1)
