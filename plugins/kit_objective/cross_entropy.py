"""Cross entropy with label smoothing, summed over rows (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4).

The gradient is made in the forward pass, in the one tensor that is kept: torch's own keeps two and makes a third.

Shapes: N predictions, V choices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import Loss, Options, Special

Spread = Literal["all", "others", "others_but_padding"]


class SmoothedOptions(Options):
    """Options of objectives that smooth their labels."""

    smoothing: float = Field(default=0.0, ge=0.0, lt=1.0)
    """How much of each label is spread over other choices."""
    spread: Spread = "all"
    """Over which: all choices, the right one too (torch); all others (fairseq); all others but padding (JoeyNMT)."""


@dataclass(frozen=True)
class Smoothing:
    """How much of a label is spread, and over which choices; what they get sums to 1."""

    amount: float = 0.0
    spread: Spread = "all"

    def weights(self, choices: int) -> tuple[float, float, float]:
        """What the right choice gets, what every other gets, and what padding gets."""
        if self.spread == "all":
            each = self.amount / choices
            return 1 - self.amount + each, each, each
        if self.spread == "others":
            each = self.amount / max(1, choices - 1)
            return 1 - self.amount, each, each
        return 1 - self.amount, self.amount / max(1, choices - 2), 0.0


class _CrossEntropy(torch.autograd.Function):
    """Gives the smoothed sum, and the sum without smoothing, which is not differentiated."""

    @staticmethod
    def forward(ctx: Any, scores_NV: Tensor, gold_N: Tensor, smoothing: Smoothing) -> tuple[Tensor, Tensor]:
        wide_NV = scores_NV.float() if scores_NV.dtype in (torch.float16, torch.bfloat16) else scores_NV
        total_N = wide_NV.logsumexp(1)
        gold_N1 = gold_N[:, None]
        surprise = (total_N - wide_NV.gather(1, gold_N1)[:, 0]).sum()
        right, other, padding = smoothing.weights(scores_NV.shape[1])
        loss = surprise
        if smoothing.amount:
            pulled = (right - other) * wide_NV.gather(1, gold_N1).sum() + other * wide_NV.sum()
            loss = total_N.sum() - pulled + (other - padding) * wide_NV[:, Special.PADDING].sum()
        if ctx.needs_input_grad[0]:
            slope_NV = (wide_NV - total_N[:, None]).exp_()
            if smoothing.amount:
                slope_NV.sub_(other)
                slope_NV[:, Special.PADDING] += other - padding
            slope_NV.scatter_add_(1, gold_N1, torch.full_like(total_N, other - right)[:, None])
            ctx.save_for_backward(slope_NV.to(scores_NV.dtype))
        ctx.mark_non_differentiable(surprise)
        return loss if smoothing.amount else surprise.clone(), surprise

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slope_NV,) = ctx.saved_tensors
        return slope_NV * gradients[0].to(slope_NV.dtype), None, None


def cross_entropy(scores_NV: Tensor, gold_N: Tensor, smoothing: Smoothing | None = None) -> tuple[Tensor, Tensor]:
    """The loss summed over N predictions, smoothed; and the same without smoothing, for figures."""
    apply: Any = _CrossEntropy.apply
    loss, surprise = apply(scores_NV, gold_N, smoothing or Smoothing())
    return loss, surprise.detach()


def loss_of(scores_NV: Tensor, gold_N: Tensor, options: SmoothedOptions, training: bool) -> Loss:
    """A loss over predictions; how many were right is counted only where nothing is trained."""
    total, nats = cross_entropy(scores_NV, gold_N, Smoothing(options.smoothing, options.spread))
    correct = None if training else (scores_NV.argmax(1) == gold_N).sum()
    return Loss(total, gold_N.numel(), nats, correct)
