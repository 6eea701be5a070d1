"""Which tokens a sampler may draw: each filter hides some, given log-probabilities.

top-p: The Curious Case of Neural Text Degeneration (Holtzman et al. 2020); min-p: Nguyen et al. 2024;
typical: Locally Typical Sampling (Meister et al. 2023).
Shapes: R rows, V choices.
"""

from __future__ import annotations

import torch
from torch import Tensor

HIDDEN = float("-inf")


def keep_top_k(logits_RV: Tensor, count: int) -> Tensor:
    """The most probable `count` tokens, and those as probable as the last of them."""
    least_R1 = logits_RV.topk(min(count, logits_RV.shape[1]), 1).values[:, -1:]
    return logits_RV.masked_fill(logits_RV < least_R1, HIDDEN)


def keep_top_p(logits_RV: Tensor, share: float) -> Tensor:
    """The fewest most probable tokens that together have at least this share of the probability."""
    order_RV = logits_RV.argsort(dim=1, descending=True, stable=True)
    return _keep_first(logits_RV, order_RV, share)


def keep_min_p(logits_RV: Tensor, share: float) -> Tensor:
    """Tokens at least this share as probable as the most probable one."""
    floor_R1 = logits_RV.amax(1, keepdim=True) + torch.tensor(share, dtype=torch.float64).log().to(logits_RV.dtype)
    return logits_RV.masked_fill(logits_RV < floor_R1, HIDDEN)


def keep_typical(logits_RV: Tensor, mass: float) -> Tensor:
    """The fewest tokens whose surprise is nearest to the expected one that together have this much probability."""
    log_p_RV = logits_RV.log_softmax(1)
    entropy_R1 = -(log_p_RV.exp() * log_p_RV.masked_fill(log_p_RV == HIDDEN, 0.0)).sum(1, keepdim=True)
    order_RV = (-log_p_RV - entropy_R1).abs().argsort(dim=1, stable=True)
    return _keep_first(logits_RV, order_RV, mass)


def _keep_first(logits_RV: Tensor, order_RV: Tensor, mass: float) -> Tensor:
    """Tokens in this order until they have this much probability; the one that reaches it is kept."""
    p_RV = logits_RV.gather(1, order_RV).softmax(1, dtype=torch.float64)
    before_RV = p_RV.cumsum(1) - p_RV
    hidden_RV = torch.zeros_like(before_RV, dtype=torch.bool).scatter(1, order_RV, before_RV >= mass)
    return logits_RV.masked_fill(hidden_RV, HIDDEN)
