"""Softmax attention of short texts in training on a CPU: a few batched products, where torch's kernel has long blocks.

Shapes: R rows times heads, Q queries, K keys, E width of a key, F width of a value.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

SHORT = 128
"""Up to so many queries and keys a text is short; the weights, which are kept, take little memory then."""
SEVERAL = 64
"""Rows times heads from which on a call that is a few Python steps longer is sooner done."""


def pays(q_BHQE: Tensor, k_BGKE: Tensor) -> bool:
    """Whether these are trained faster by products here than by torch's kernel."""
    if q_BHQE.device.type != "cpu" or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if q_BHQE.dtype not in (torch.float32, torch.float64) or torch.is_autocast_enabled("cpu"):
        return False
    rows, heads, queries, _ = q_BHQE.shape
    return heads == k_BGKE.shape[1] and rows * heads >= SEVERAL and max(queries, k_BGKE.shape[2]) <= SHORT


def attend_short(q_BHQE: Tensor, k_BHKE: Tensor, v_BHKF: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    """Scaled dot-product attention: [B, H, Q, F]; mask: [1 or B * H, Q, K], added to scores."""
    rows, heads = q_BHQE.shape[:2]
    out_RQF: Tensor = _ShortAttention.apply(  # type: ignore[no-untyped-call]
        q_BHQE.flatten(0, 1), k_BHKE.flatten(0, 1), v_BHKF.flatten(0, 1), scale, mask
    )
    return out_RQF.view(rows, heads, *out_RQF.shape[1:])


class _ShortAttention(torch.autograd.Function):
    """Keeps the weights. The right one of two factors never lies turned: that takes a CPU up to three times as long."""

    @staticmethod
    def forward(ctx: Any, q_RQE: Tensor, k_RKE: Tensor, v_RKF: Tensor, scale: float, mask: Tensor | None) -> Tensor:
        k_REK = k_RKE.transpose(1, 2).contiguous()
        if mask is None:
            scores_RQK = torch.bmm(q_RQE, k_REK).mul_(scale)
        else:
            scores_RQK = torch.baddbmm(mask, q_RQE, k_REK, alpha=scale)
        weights_RQK = scores_RQK.softmax(-1)
        ctx.save_for_backward(q_RQE, k_RKE, v_RKF, weights_RQK)
        ctx.scale = scale
        return torch.bmm(weights_RQK, v_RKF)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q_RQE, k_RKE, v_RKF, weights_RQK = ctx.saved_tensors
        (d_out_RQF,) = gradients
        # Gradients of one text's queries, keys and values lie one after the other, as they are wanted next.
        pieces = [q_RQE, k_RKE, v_RKF]
        d_pieces = d_out_RQF.new_empty(sum(piece.numel() for piece in pieces)).split([p.numel() for p in pieces])
        d_q_RQE, d_k_RKE, d_v_RKF = (d.view(piece.shape) for d, piece in zip(d_pieces, pieces, strict=True))
        torch.bmm(weights_RQK.transpose(1, 2), d_out_RQF, out=d_v_RKF)
        d_weights_RQK = torch.bmm(d_out_RQF, v_RKF.transpose(1, 2).contiguous())
        d_dots_RQK = torch._softmax_backward_data(d_weights_RQK, weights_RQK, -1, weights_RQK.dtype).mul_(ctx.scale)
        torch.bmm(d_dots_RQK, k_RKE, out=d_q_RQE)
        torch.bmm(d_dots_RQK.transpose(1, 2), q_RQE, out=d_k_RKE)
        return d_q_RQE, d_k_RKE, d_v_RKF, None, None
