"""Attention of a few queries on a CPU in two products, and keys stored by column for it, those of a group as [E, K].

Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a key, F width of a value.
"""

from __future__ import annotations

import torch
from torch import Tensor

MANY = 128
"""Rows times groups from which on keys that several queries read are stored by column."""
FEW = 64
"""Up to so many queries are multiplied with keys that lie by column; for more there is torch's kernel."""
VERY_FEW = 8
"""The same for keys that lie by row."""
SEVERAL = 16
"""Rows times heads from which on products are taken for those."""


def many(k_BGKE: Tensor) -> bool:
    """Whether there are so many rows that their keys are better stored by column, where several queries read them.

    A CPU multiplies several queries with few keys up to five times as fast then; not one query, nor in few rows.
    """
    # In half precision torch's kernel adds up in full precision, and weights times values does not.
    exact = k_BGKE.dtype in (torch.float32, torch.float64)
    return exact and k_BGKE.device.type == "cpu" and k_BGKE.shape[0] * k_BGKE.shape[1] >= MANY


def by_column(k_BGKE: Tensor) -> bool:
    """Whether keys are stored by column, on a CPU."""
    return k_BGKE.device.type == "cpu" and k_BGKE.stride(2) == 1 and k_BGKE.stride(3) > 1


def to_columns(k_BGKE: Tensor) -> Tensor:
    """The same keys, stored by column."""
    return k_BGKE.transpose(2, 3).contiguous().transpose(2, 3)


def chosen_rows(k_BGKE: Tensor, rows: Tensor) -> Tensor:
    """Keys of these rows, stored as before."""
    if by_column(k_BGKE):
        return k_BGKE.transpose(2, 3).index_select(0, rows).transpose(2, 3)
    return k_BGKE.index_select(0, rows)


def better_in_products(q_BHQE: Tensor, k_BGKE: Tensor) -> bool:
    """Whether a few products are sooner done than torch's kernel, whose blocks are made for many queries.

    One query of 25 keys in 256 rows and heads takes 0.11 ms instead of 0.17 on a core, of 80 keys 0.27 instead of 1.4.
    """
    # How keys are stored comes first: a graph that is exported must not look at how many queries there are.
    if by_column(k_BGKE):
        return q_BHQE.shape[2] <= FEW
    if torch.compiler.is_exporting() or torch.is_grad_enabled() or k_BGKE.device.type != "cpu":
        return False
    rows, heads, queries, _ = q_BHQE.shape
    exact = q_BHQE.dtype in (torch.float32, torch.float64)
    return exact and queries <= VERY_FEW and rows * heads >= SEVERAL


def attend_in_products(q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    """Attention of a few queries in two products: [B, H, Q, F]; mask: what is added to scores."""
    rows, heads, queries, width = q_BHQE.shape
    # Heads that share keys are queries of one head; R: rows times groups, N: queries of all heads of a group.
    q_RNE = q_BHQE.reshape(rows * k_BGKE.shape[1], -1, width)
    scores_BHQK = torch.bmm(q_RNE, k_BGKE.transpose(2, 3).flatten(0, 1)).view(rows, heads, queries, -1)
    scores_BHQK = scores_BHQK.mul_(scale) if mask is None else torch.add(mask, scores_BHQK, alpha=scale)
    weights_RNK = scores_BHQK.softmax(-1).view(*q_RNE.shape[:2], -1)
    return torch.bmm(weights_RNK, v_BGKF.flatten(0, 1)).view(rows, heads, queries, -1)
