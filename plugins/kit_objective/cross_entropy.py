"""Cross entropy with label smoothing, summed over rows (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4).

The gradient is made in the forward pass, in the memory of the scores themselves, a few rows at a time so that they stay
in the cache: a fifth of the time of torch's own, which keeps two tensors of that size and makes a third.

Shapes: N predictions, V choices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor
from torch.autograd.function import once_differentiable

from kit import Loss, Options, Special

AT_ONCE = 2**18
"""How many scores are worked on at once: about as many as a core's cache holds."""
Spread = Literal["all", "others", "others_but_padding"]
Rows = tuple[int, Tensor]
"""How many rows a batch has, and [N] the row of each prediction."""


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
        slope = ctx.needs_input_grad[0]
        held_NV = scores_NV if slope else scores_NV.clone()
        rows = max(1, AT_ONCE // scores_NV.shape[1])
        pieces = zip(held_NV.split(rows), gold_N.split(rows), strict=True)
        sums = torch.stack([_piece(scores, gold, smoothing, slope) for scores, gold in pieces]).sum(0)
        if slope:
            ctx.slope_NV = held_NV
        loss, surprise = sums.unbind()
        ctx.mark_non_differentiable(surprise)
        return loss, surprise

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        slope_NV, ctx.slope_NV = ctx.slope_NV, None
        if slope_NV is None:
            raise RuntimeError("the gradient of this loss was asked for twice, and it is made only once")
        return slope_NV.mul_(gradients[0].to(slope_NV.dtype)), None, None


def _piece(scores_MV: Tensor, gold_M: Tensor, smoothing: Smoothing, slope: bool) -> Tensor:
    """[2]: the loss of a few rows, and the same without smoothing; the scores become the gradient, or are spoilt."""
    wide_MV = scores_MV.float() if scores_MV.dtype in (torch.float16, torch.bfloat16) else scores_MV
    gold_M1 = gold_M[:, None]
    right, other, padding = smoothing.weights(scores_MV.shape[1])
    highest_M = wide_MV.amax(1)
    found_M = wide_MV.gather(1, gold_M1)[:, 0]
    pulled_M = found_M
    if smoothing.amount:
        pulled_M = (right - other) * found_M + other * wide_MV.sum(1) - (other - padding) * wide_MV[:, Special.PADDING]
    torch._softmax(wide_MV, 1, False, out=wide_MV)
    # The likeliest choice has at least 1/V, so its logarithm is exact where that of the gold one may not be.
    total_M = highest_M - wide_MV.amax(1).log()
    if slope:
        if smoothing.amount:
            wide_MV.sub_(other)
            wide_MV[:, Special.PADDING] += other - padding
        wide_MV.scatter_add_(1, gold_M1, torch.full_like(highest_M, other - right)[:, None])
        if wide_MV is not scores_MV:
            scores_MV.copy_(wide_MV)
    # Row by row: sums are large beside a loss that is almost learnt, and their difference would lose its digits.
    return torch.stack([(total_M - pulled_M).sum(), (total_M - found_M).sum()])


def cross_entropy(scores_NV: Tensor, gold_N: Tensor, smoothing: Smoothing | None = None) -> tuple[Tensor, Tensor]:
    """The loss summed over N predictions, smoothed; and the same without smoothing, for figures.

    Scores that come straight from a matrix product are used up: their memory holds the gradient afterwards.
    """
    apply: Any = _CrossEntropy.apply
    mine = scores_NV if not scores_NV.requires_grad or _is_spare(scores_NV) else scores_NV.clone()
    loss, surprise = apply(mine, gold_N, smoothing or Smoothing())
    return loss, surprise.detach()


def _is_spare(scores: Tensor) -> bool:
    """Whether nothing needs these numbers any more: a product does not look back at its result, in whatever shape."""
    node = scores.grad_fn
    while type(node).__name__ in ("ViewBackward0", "UnsafeViewBackward0"):
        node = node.next_functions[0][0]  # type: ignore[union-attr]
    return type(node).__name__ in ("MmBackward0", "AddmmBackward0", "_ProductBackward", "IndexBackward0")


def loss_of(scores_NV: Tensor, gold_N: Tensor, options: SmoothedOptions, training: bool, rows_N: Rows) -> Loss:
    """A loss over predictions; where nothing is trained, also how many were right, and what each row comes to.

    rows_N: how many rows there are, and the row that each prediction is in.
    """
    rows = correct = None
    if not training:
        right_N = scores_NV.argmax(1) == gold_N
        correct, rows = right_N.sum(), _by_row(scores_NV, gold_N, right_N, *rows_N)
    total, nats = cross_entropy(scores_NV, gold_N, Smoothing(options.smoothing, options.spread))
    return Loss(total, gold_N.numel(), nats, correct, rows)


def _by_row(scores_NV: Tensor, gold_N: Tensor, right_N: Tensor, rows: int, row_N: Tensor) -> Tensor:
    """[rows, 3]: nats, predictions and right ones."""
    wide_NV = scores_NV.detach()
    wide_NV = wide_NV.float() if wide_NV.dtype in (torch.float16, torch.bfloat16) else wide_NV
    nats_N = F.cross_entropy(wide_NV, gold_N, reduction="none").double()
    each_N3 = torch.stack([nats_N, torch.ones_like(nats_N), right_N.double()], 1)
    return nats_N.new_zeros(rows, 3).index_add_(0, row_N, each_N3)
