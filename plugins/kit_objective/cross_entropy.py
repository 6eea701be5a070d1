"""Cross entropy with label smoothing, summed over predictions (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4).

The gradient is computed in the forward pass, in the memory of the logits, a few rows at a time so that they stay in the
cache: a fifth of the time of torch's own, which keeps two tensors of that size and allocates a third.

Shapes: N predictions, M of them at a time, V classes.
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

CHUNK = 2**18
"""Logits of a chunk of rows: about as many as the cache of a core holds."""
Spread = Literal["all", "others", "others_but_padding"]


class SmoothedOptions(Options):
    """Options of objectives with label smoothing."""

    label_smoothing: float = Field(default=0.0, ge=0.0, lt=1.0)
    """The probability that is taken from each label and spread over other classes."""
    spread: Spread = "all"
    """Over which: all classes, the label too (torch); all others (fairseq); all others but padding (JoeyNMT)."""


@dataclass(frozen=True)
class Smoothing:
    """A smoothed label distribution; its probabilities sum to 1."""

    amount: float = 0.0
    spread: Spread = "all"

    def probabilities(self, classes: int) -> tuple[float, float, float]:
        """The probability of the label, of every other class, and of padding."""
        if self.spread == "all":
            each = self.amount / classes
            return 1 - self.amount + each, each, each
        if self.spread == "others":
            each = self.amount / max(1, classes - 1)
            return 1 - self.amount, each, each
        return 1 - self.amount, self.amount / max(1, classes - 2), 0.0


class _CrossEntropy(torch.autograd.Function):
    """Cross entropy whose forward pass overwrites the logits with their gradient."""

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, labels_N: Tensor, smoothing: Smoothing) -> tuple[Tensor, Tensor]:
        with_gradient = ctx.needs_input_grad[0]
        buffer_NV = logits_NV if with_gradient else logits_NV.clone()
        rows = max(1, CHUNK // logits_NV.shape[1])
        chunks = zip(buffer_NV.split(rows), labels_N.split(rows), strict=True)
        sums = torch.stack([_chunk_loss(logits, labels, smoothing, with_gradient) for logits, labels in chunks]).sum(0)
        if with_gradient:
            ctx.gradient_NV = buffer_NV
        loss, nll = sums.unbind()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        gradient_NV, ctx.gradient_NV = ctx.gradient_NV, None
        if gradient_NV is None:
            raise RuntimeError("the gradient of this loss was asked for twice, and it is made only once")
        return gradient_NV.mul_(gradients[0].to(gradient_NV.dtype)), None, None


def _chunk_loss(logits_MV: Tensor, labels_M: Tensor, smoothing: Smoothing, with_gradient: bool) -> Tensor:
    """[2]: the smoothed loss of a chunk of rows, and their NLL; the logits become the gradient, or are overwritten."""
    wide_MV = logits_MV.float() if logits_MV.dtype in (torch.float16, torch.bfloat16) else logits_MV
    labels_M1 = labels_M[:, None]
    label, other, padding = smoothing.probabilities(logits_MV.shape[1])
    highest_M = wide_MV.amax(1)
    label_logit_M = wide_MV.gather(1, labels_M1)[:, 0]
    expected_logit_M = label_logit_M
    if smoothing.amount:
        expected_logit_M = (label - other) * label_logit_M + other * wide_MV.sum(1)
        expected_logit_M = expected_logit_M - (other - padding) * wide_MV[:, Special.PADDING]
    torch._softmax(wide_MV, 1, False, out=wide_MV)
    # The most probable class has at least 1/V, so its logarithm is exact where that of the label may not be.
    log_sum_exp_M = highest_M - wide_MV.amax(1).log()
    if with_gradient:
        if smoothing.amount:
            wide_MV.sub_(other)
            wide_MV[:, Special.PADDING] += other - padding
        wide_MV.scatter_add_(1, labels_M1, torch.full_like(highest_M, other - label)[:, None])
        if wide_MV is not logits_MV:
            logits_MV.copy_(wide_MV)
    # Row by row: sums are large beside a loss that is almost learnt, and their difference would lose its digits.
    return torch.stack([(log_sum_exp_M - expected_logit_M).sum(), (log_sum_exp_M - label_logit_M).sum()])


def cross_entropy(
    logits_NV: Tensor, labels_N: Tensor, smoothing: Smoothing | None = None, overwrite: bool = False
) -> tuple[Tensor, Tensor]:
    """The smoothed loss summed over N predictions, and their NLL, which is not differentiated.

    overwrite: the gradient takes the memory of the logits. Autograd raises an error in the backward pass if another
    operation has saved them.
    """
    apply: Any = _CrossEntropy.apply
    buffer_NV = logits_NV if overwrite or not logits_NV.requires_grad else logits_NV.clone()
    loss, nll = apply(buffer_NV, labels_N, smoothing or Smoothing())
    return loss, nll.detach()


def smoothed_loss(
    logits_NV: Tensor,
    labels_N: Tensor,
    options: SmoothedOptions,
    rows: int,
    row_N: Tensor,
    *,
    training: bool,
    overwrite: bool = False,
) -> Loss:
    """The loss over N predictions in so many rows of a batch; in evaluation, also correct predictions and row sums.

    row_N: the row of each prediction. overwrite: as in `cross_entropy`.
    """
    by_row = correct = None
    if not training:
        correct_N = logits_NV.argmax(1) == labels_N
        correct, by_row = correct_N.sum(), _sums_by_row(logits_NV, labels_N, correct_N, rows, row_N)
    smoothing = Smoothing(options.label_smoothing, options.spread)
    total, nll_sum = cross_entropy(logits_NV, labels_N, smoothing, overwrite)
    return Loss(total, labels_N.numel(), nll_sum, correct, by_row)


def _sums_by_row(logits_NV: Tensor, labels_N: Tensor, correct_N: Tensor, rows: int, row_N: Tensor) -> Tensor:
    """[rows, 3]: the NLL, the number of predictions and of correct ones."""
    wide_NV = logits_NV.detach()
    wide_NV = wide_NV.float() if wide_NV.dtype in (torch.float16, torch.bfloat16) else wide_NV
    nll_N = F.cross_entropy(wide_NV, labels_N, reduction="none").double()
    each_N3 = torch.stack([nll_N, torch.ones_like(nll_N), correct_N.double()], 1)
    return nll_N.new_zeros(rows, 3).index_add_(0, row_N, each_N3)
