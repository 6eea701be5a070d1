"""Fourier token mixing without parameters: FNet (Lee-Thorp et al. 2022); encoders only.

Each sequence is transformed over its own real tokens, so padding changes nothing; the published model transforms
padding along with them. The cost n log n is declared as linear, which is nearer than quadratic.

Shapes: B batch, L tokens, P points of a padded transform, D model width.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from kit import Attention, AttentionContext, Cache, Capabilities, NoCache, Options, without_autocast
from kit_attention.left_align import LeftAligned
from kit_attention.subquadratic import at_least_float32, refuse_masks


class FourierOptions(Options):
    """The real part of a 2D Fourier transform over tokens and features."""

    use: Literal["fourier"] = "fourier"
    scaled: bool = False
    """Whether the transform is orthonormal, divided by sqrt(tokens · width); FNet's is not."""


class FourierAttention(Attention):
    """Mixes tokens by a 2D FFT; there are no parameters, heads or attention weights."""

    options_type = FourierOptions
    options: FourierOptions
    capabilities = Capabilities(
        masks=frozenset(), positions=frozenset(), reads_memory=False, incremental=False, weights=False, cost="linear"
    )

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        """Real part of the 2D FFT of each sequence over its real tokens: the shape of x."""
        refuse_masks(context, self.name())
        if context.observer is not None:
            context.observer.without_weights(self.build_context, "a Fourier transform has no weights")
        layout = context.queries
        x_BLD = layout.pad(x)
        with without_autocast(x):
            # FFTs exist for float32 and float64 only.
            mixed_BLD = self._transform(at_least_float32(x_BLD), context)
        return layout.unpad(mixed_BLD.to(x.dtype))

    def start(self) -> Cache:
        """No cache: it does not decode incrementally."""
        return NoCache()

    def _transform(self, x_BLD: Tensor, context: AttentionContext) -> Tensor:
        padding_mask = context.queries.padding_mask
        if x_BLD.numel() == 0:
            return x_BLD
        if padding_mask is None:
            whole_BLD: Tensor = torch.fft.fft2(x_BLD, norm="ortho" if self.options.scaled else "backward").real
            return whole_BLD
        rows = LeftAligned(context.queries)
        real_BL1 = (padding_mask if rows.layout.padding_mask is None else rows.layout.padding_mask)[..., None]
        count_B = padding_mask.sum(1).clamp(min=1)
        x_BLD = rows.align(x_BLD[:, None])[:, 0] * real_BL1
        mixed_BLD = transform_rows(torch.fft.fft(x_BLD, dim=-1), count_B).real * real_BL1
        if self.options.scaled:
            mixed_BLD = mixed_BLD / (count_B * self.dims.width).to(mixed_BLD.dtype).sqrt()[:, None, None]
        return rows.restore(mixed_BLD[:, None])[:, 0]


def transform_rows(x_BLD: Tensor, count_B: Tensor) -> Tensor:
    """FFT of each row over its first `count` tokens, the rest being zero, by Bluestein's algorithm (1970): [B, L, D].

    t s = (t² + s² - (t - s)²) / 2 turns a transform of any length into a convolution of one length for all rows.
    """
    length = x_BLD.shape[1]
    points = 1 << math.ceil(math.log2(2 * length))
    place_L = torch.arange(length, device=x_BLD.device)
    # Squares are reduced modulo the period as integers, so that late positions lose no precision.
    turns_BL = (place_L.square() % (2 * count_B[:, None])).to(torch.float64) / count_B[:, None]
    chirp_BL = torch.polar(torch.ones_like(turns_BL), -math.pi * turns_BL)
    back_BP = torch.zeros(len(count_B), points, dtype=chirp_BL.dtype, device=x_BLD.device)
    back_BP[:, :length] = chirp_BL.conj()
    back_BP[:, points - length + 1 :] = chirp_BL[:, 1:].conj().flip(1)
    kernel_BP1 = torch.fft.fft(back_BP).to(x_BLD.dtype)[..., None]
    chirp_BL1 = chirp_BL.to(x_BLD.dtype)[..., None]
    spread_BPD = torch.fft.fft(x_BLD * chirp_BL1, n=points, dim=1) * kernel_BP1
    mixed_BLD: Tensor = torch.fft.ifft(spread_BPD, dim=1)[:, :length] * chirp_BL1
    return mixed_BLD
