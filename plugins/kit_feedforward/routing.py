"""Which experts a token takes, how much of each, and the two losses that keep a router sound.

Shapes: N tokens, E experts, C choices of a token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Routing:
    """The router's decision for some tokens."""

    chosen_NC: Tensor
    """The experts of each token, the best first."""
    shares_NC: Tensor
    """How much of each; 0 where an expert had no room left."""
    balance: Tensor
    """1 where work is even, up to E where one expert does it all (Fedus et al. 2021, equation 4)."""
    logit: Tensor
    """The mean square of logsumexp(scores) (Zoph et al. 2022, equation 5)."""


def route(scores_NE: Tensor, top: int, renormalise: bool, room: int | None) -> Routing:
    """The best `top` experts of each token; with `room`, tokens in their order until an expert is full."""
    count, experts = scores_NE.shape
    probabilities_NE = scores_NE.softmax(-1)
    shares_NC, chosen_NC = probabilities_NE.topk(top, -1)
    if renormalise:
        shares_NC = shares_NC / shares_NC.sum(-1, keepdim=True)
    taken_NE = torch.zeros_like(probabilities_NE).scatter(1, chosen_NC, 1.0)
    if room is not None:
        # A token's place in the queue depends on those before it only, so that no text is told of its own future.
        place_NC = taken_NE.cumsum(0).gather(1, chosen_NC)
        shares_NC = shares_NC.masked_fill(place_NC > room, 0.0)
    some = max(count, 1)
    work_E, mean_E = taken_NE.sum(0) / (some * top), probabilities_NE.sum(0) / some
    balance = experts * (work_E * mean_E).sum()
    logit = scores_NE.logsumexp(-1).square().sum() / some
    return Routing(chosen_NC, shares_NC, balance, logit)
