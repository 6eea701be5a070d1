"""Softmax with a way out: a logit that takes weight and gives nothing, so that a head may look at no key.

Learned, one a head: gpt-oss (OpenAI 2025), after StreamingLLM (Xiao et al. 2024); zero: softmax-one (Miller 2023).
Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a query or key.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import Abilities, Dims, MultiHeadAttention, MultiHeadOptions, Scope, Site


class SinkOptions(MultiHeadOptions):
    """A softmax that need not spend all its weight on keys."""

    use: Literal["sink"] = "sink"
    logit: Literal["learned", "softmax_one"] = "learned"
    """The sink's score: one trained number a head, from zero on, or zero for good: exp(s) / (1 + sum of exp(s))."""


class SinkAttention(MultiHeadAttention):
    """Keys compete with a sink that has no value; weights sum to less than one."""

    options_type = SinkOptions
    options: SinkOptions
    abilities = Abilities(shares=False)
    sink: Tensor

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        zeros = torch.zeros(self.heads, 1, 1)
        if options.logit == "learned":
            self.sink = nn.Parameter(zeros)
        else:
            self.register_buffer("sink", zeros, persistent=False)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """Softmax over keys and sink, the sink's share left out; who sees no key gives it all to the sink."""
        scores_BHQK = scope.scores(q_BHQE, k_BGKE, self.scale)
        if scope.allowed is not None:
            scores_BHQK = scores_BHQK.masked_fill(~scope.allowed, float("-inf"))
        sink_BHQ1 = self.sink.to(scores_BHQK.dtype).expand(*scores_BHQK.shape[:-1], 1)
        return torch.cat([scores_BHQK, sink_BHQ1], -1).softmax(-1)[..., :-1]
