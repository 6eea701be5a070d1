"""Softmax attention approximated by positive orthogonal random features: Rethinking Attention with Performers
(Choromanski et al. 2021), FAVOR+.

Shapes: B rows, H heads, L tokens, E width of a key, M features.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from kit import Dims, MultiHeadOptions, Site
from kit_attention.kernelized import KernelizedAttention


class PerformerOptions(MultiHeadOptions):
    """Softmax attention at linear cost, up to the noise of random features."""

    use: Literal["performer"] = "performer"
    features: PositiveInt | None = None
    """How many random features; left out, width · ln(width) of a key, as the paper has it."""
    seed: NonNegativeInt = 0
    """What the directions are drawn from; layers differ."""


class PerformerAttention(KernelizedAttention):
    """phi(x) = exp(w · x - |x|² / 2) for random directions w, so that phi(q) · phi(k) is exp(q · k) on average."""

    options_type = PerformerOptions
    options: PerformerOptions
    directions_ME: Tensor

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        count = options.features or max(1, round(self.key_width * math.log(self.key_width)))
        drawn = orthogonal_directions(count, self.key_width, options.seed * 10_007 + site.layer)
        # Saved with the weights: the decomposition behind it may differ in its last digits on another machine.
        self.register_buffer("directions_ME", drawn.to(torch.get_default_device(), torch.get_default_dtype()))

    def features(self, x_BHLE: Tensor, side: Literal["query", "key"]) -> Tensor:
        """A query's largest exponent is taken off, which cancels in the division.

        Keys keep theirs: a common one would come from the whole text, and rounding would carry the future into it.
        """
        x_BHLE = x_BHLE * self.key_width**-0.25
        powers_BHLM = x_BHLE @ self.directions_ME.to(x_BHLE.dtype).T
        if side == "query":
            return (powers_BHLM - powers_BHLM.amax(-1, keepdim=True).detach()).exp()
        return (powers_BHLM - x_BHLE.square().sum(-1, keepdim=True) / 2).exp()


def orthogonal_directions(count: int, width: int, seed: int) -> Tensor:
    """Gaussian vectors [count, width], orthogonal to each other within each `width` of them."""
    generator = torch.Generator("cpu").manual_seed(seed)
    blocks = -(-count // width)
    drawn = torch.randn(blocks, width, width, generator=generator, dtype=torch.float64, device="cpu")
    lengths = torch.randn(count, width, generator=generator, dtype=torch.float64, device="cpu").norm(
        dim=-1, keepdim=True
    )
    bases, upper = torch.linalg.qr(drawn)
    # The signs that make the bases uniform over all rotations.
    bases = bases * upper.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    directions: Tensor = bases.transpose(-1, -2).reshape(-1, width)[:count] * lengths
    return directions
