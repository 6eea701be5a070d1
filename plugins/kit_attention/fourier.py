"""Tokens mixed by a Fourier transform, with nothing to learn: FNet (Lee-Thorp et al. 2022). For reading only.

A transform is of a length, so padding is no matter of hiding keys here: each row is transformed over its own real
tokens, which is what it would get alone. (The published model transforms padding along with the text.)
Cost is n log n, declared as linear, which it is nearer to.

Shapes: B rows, L tokens, P points of a padded transform, D width.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from kit import Abilities, Attention, NoState, Options, Scope, State, without_autocast
from kit_attention.only import refuse_masks
from kit_attention.real_first import RealFirst
from kit_attention.widening import widened


class FourierOptions(Options):
    """The real part of a Fourier transform over tokens and over each token's numbers."""

    use: Literal["fourier"] = "fourier"
    scaled: bool = False
    """Whether it is divided by the square root of tokens times width, which keeps sizes as they are; FNet does not."""


class FourierAttention(Attention):
    """Has no parameters, no heads and no weights."""

    options_type = FourierOptions
    options: FourierOptions
    abilities = Abilities(
        masks=frozenset(), positions=frozenset(), reads_memory=False, steps=False, weights=False, cost="linear"
    )

    def forward(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None = None) -> Tensor:
        """Transform each row over its real tokens."""
        refuse_masks(scope, self.part_name())
        if scope.watcher is not None:
            scope.watcher.without_weights(self.site, "a Fourier transform has no weights")
        layout = scope.queries
        x_BLD = layout.pad(x)
        with without_autocast(x):
            # Transforms exist for whole precision only.
            mixed_BLD = self._transform(widened(x_BLD), scope)
        return layout.unpad(mixed_BLD.to(x.dtype))

    def start(self) -> State:
        """Nothing: it does not go step by step."""
        return NoState()

    def _transform(self, x_BLD: Tensor, scope: Scope) -> Tensor:
        valid = scope.queries.valid
        if x_BLD.numel() == 0:
            return x_BLD
        if valid is None:
            whole_BLD: Tensor = torch.fft.fft2(x_BLD, norm="ortho" if self.options.scaled else "backward").real
            return whole_BLD
        rows = RealFirst(scope.queries)
        real_BL1 = (valid if rows.layout.valid is None else rows.layout.valid)[..., None]
        count_B = valid.sum(1).clamp(min=1)
        x_BLD = rows.forth(x_BLD[:, None])[:, 0] * real_BL1
        mixed_BLD = transform_rows(torch.fft.fft(x_BLD, dim=-1), count_B).real * real_BL1
        if self.options.scaled:
            mixed_BLD = mixed_BLD / (count_B * self.dims.width).to(mixed_BLD.dtype).sqrt()[:, None, None]
        return rows.back(mixed_BLD[:, None])[:, 0]


def transform_rows(x_BLD: Tensor, count_B: Tensor) -> Tensor:
    """The transform of each row over its first `count` tokens, the rest being zero; all rows at once (Bluestein 1970).

    t s = (t² + s² - (t - s)²) / 2 turns a transform of any length into a convolution, of one length for all rows.
    """
    length = x_BLD.shape[1]
    points = 1 << math.ceil(math.log2(2 * length))
    place_L = torch.arange(length, device=x_BLD.device)
    # Squares are taken modulo the period while they are whole numbers, so that far tokens keep all digits.
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
