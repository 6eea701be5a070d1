"""Softmax attention approximated by positive orthogonal random features, FAVOR+: Performer (Choromanski et al. 2021).

Shapes: B batch, H heads, L tokens, E head dimension, M features.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from kit import BuildContext, Dims, MultiHeadOptions
from kit_attention.kernelized import KernelizedAttention


class PerformerOptions(MultiHeadOptions):
    """Performer attention: softmax attention at linear cost, approximated by random features."""

    use: Literal["performer"] = "performer"
    features: PositiveInt | None = None
    """Number of random features; left out, head_dim · ln(head_dim), as in the paper."""
    seed: NonNegativeInt = 0
    """Seed of the random projections; each layer draws its own."""


class PerformerAttention(KernelizedAttention):
    """phi(x) = exp(w · x - |x|² / 2) for random projections w, so that E[phi(q) · phi(k)] = exp(q · k)."""

    options_type = PerformerOptions
    options: PerformerOptions
    directions_ME: Tensor

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        count = options.features or max(1, round(self.head_dim * math.log(self.head_dim)))
        drawn = orthogonal_directions(count, self.head_dim, options.seed * 10_007 + build_context.layer)
        # Saved with the weights: QR decompositions differ in their last digits between machines.
        self.register_buffer("directions_ME", drawn.to(torch.get_default_device(), torch.get_default_dtype()))

    def features(self, x_BHLE: Tensor, side: Literal["query", "key"]) -> Tensor:
        """Random features, stabilised by each query's largest exponent, which cancels in the division: [B, H, L, M].

        Keys are not stabilised: their maximum is one of the whole sequence, and would leak the future by rounding.
        """
        x_BHLE = x_BHLE * self.head_dim**-0.25
        powers_BHLM = x_BHLE @ self.directions_ME.to(x_BHLE.dtype).T
        if side == "query":
            return (powers_BHLM - powers_BHLM.amax(-1, keepdim=True).detach()).exp()
        return (powers_BHLM - x_BHLE.square().sum(-1, keepdim=True) / 2).exp()


def orthogonal_directions(count: int, width: int, seed: int) -> Tensor:
    """Gaussian vectors [count, width], orthogonal within each group of `width`."""
    generator = torch.Generator("cpu").manual_seed(seed)
    blocks = -(-count // width)
    drawn = torch.randn(blocks, width, width, generator=generator, dtype=torch.float64, device="cpu")
    lengths = torch.randn(count, width, generator=generator, dtype=torch.float64, device="cpu").norm(
        dim=-1, keepdim=True
    )
    bases, upper = torch.linalg.qr(drawn)
    # These signs make the bases uniformly distributed over rotations.
    bases = bases * upper.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    directions: Tensor = bases.transpose(-1, -2).reshape(-1, width)[:count] * lengths
    return directions
