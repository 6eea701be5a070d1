"""Sparse mixture of experts (MoE) with top-k routing: Outrageously Large Networks (Shazeer et al. 2017).

Switch Transformers (Fedus et al. 2021); ST-MoE (Zoph et al. 2022).

Shapes: N real tokens, D model width, E experts, C experts per token (top-k).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from kit import (
    AttentionContext,
    BuildContext,
    Cache,
    Dims,
    Feedforward,
    FeedforwardSlot,
    Options,
    Problem,
    without_autocast,
)


class MixtureOptions(Options):
    """Mixture of experts: a router sends each token to its top-k feed-forward experts."""

    use: Literal["mixture"] = "mixture"
    expert: FeedforwardSlot
    """The expert: any feed-forward part that is tokenwise."""
    experts: int = Field(default=8, ge=2)
    """Number of experts."""
    top: PositiveInt = 2
    """k: experts per token."""
    weights: Literal["renormalised", "softmax"] = "renormalised"
    """`renormalised`: weights of the chosen experts sum to 1 (Mixtral). `softmax`: weights over all (Switch)."""
    capacity: PositiveFloat | None = None
    """Capacity factor in training: tokens beyond it times an even load are dropped; left out, none is.

    Nothing is dropped outside training, so that results do not depend on the rest of the batch.
    """
    balance: NonNegativeFloat = 0.01
    """Weight of the load-balancing loss."""
    logit: NonNegativeFloat = 0.001
    """Weight of the router z-loss (ST-MoE)."""
    jitter: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Router jitter in training: inputs are multiplied by uniform noise in [1 - jitter, 1 + jitter]."""


class MixtureFeedforward(Feedforward):
    """Routes real tokens only; padding counts neither for the losses nor for the capacity."""

    options_type = MixtureOptions
    regroups_tokens = True
    options: MixtureOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.router = nn.Parameter(torch.empty(options.experts, dims.width))
        nn.init.normal_(self.router, std=dims.width**-0.5)
        self.experts = nn.ModuleList(
            build_context.at("expert").build(options.expert, dims) for _ in range(options.experts)
        )

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """k must not exceed the experts, and experts must be tokenwise."""
        if options.top > options.experts:
            yield build_context.problem(
                f"each token takes {options.top} of {options.experts} experts",
                "top",
                hint=f"take top: {options.experts} or fewer",
            )
        if options.top == 1 and options.weights == "renormalised":
            yield build_context.problem(
                "a single expert's renormalised weight is always 1, which tells the router nothing",
                "weights",
                hint="write weights: softmax",
            )
        component = build_context.component_of(options.expert)
        if component.forward is not Feedforward.forward:  # type: ignore[attr-defined]
            yield build_context.problem(
                f"an expert sees scattered tokens, and the feedforward {component.name()} needs whole sequences",
                "expert",
                hint="choose a feedforward that treats each token by itself, such as relu",
            )
        yield from build_context.at("expert").check(options.expert, dims)

    def forward(self, x: Tensor, context: AttentionContext, state: Cache | None = None) -> Tensor:
        """Dispatch of real tokens to their experts and back: like x, zero for padding."""
        layout = context.queries
        if layout.is_packed or layout.padding_mask is None or x.device.type == "meta":
            return self.transform(x)
        packed = layout.packed()
        return packed.pad(self.transform(packed.unpad(x)))

    def transform(self, x: Tensor) -> Tensor:
        """x: [..., D], real tokens only; the same shape."""
        x_ND = x.reshape(-1, x.shape[-1])
        routing = route(
            self._router_logits(x_ND),
            self.options.top,
            self.options.weights == "renormalised",
            self._expert_capacity(x_ND),
        )
        if self.options.balance > 0:
            self.add_loss("balance", self.options.balance * routing.balance)
        if self.options.logit > 0:
            self.add_loss("router_logit", self.options.logit * routing.logit)
        return self._dispatch(x_ND, routing).reshape(x.shape)

    def value_output_parameters(self) -> list[Tensor]:
        """Those of the experts."""
        return [weight for expert in self.experts for weight in expert.value_output_parameters()]  # type: ignore[operator]

    def _router_logits(self, x_ND: Tensor) -> Tensor:
        """Router logits [N, E], in float32 at least: half precision changes choices."""
        with without_autocast(x_ND):
            dtype = torch.promote_types(x_ND.dtype, torch.float32)
            x_ND = x_ND.to(dtype)
            if self.training and self.options.jitter > 0:
                x_ND = x_ND * torch.empty_like(x_ND).uniform_(1 - self.options.jitter, 1 + self.options.jitter)
            return x_ND @ self.router.to(dtype).t()

    def _expert_capacity(self, x_ND: Tensor) -> int | None:
        """Tokens per expert; None for all."""
        if not self.training or self.options.capacity is None:
            return None
        return max(1, round(self.options.capacity * x_ND.shape[0] * self.options.top / self.options.experts))

    def _dispatch(self, x_ND: Tensor, routing: Routing) -> Tensor:
        """Tokens sorted by expert, one call per expert, and back: [N, D]; idle experts get zero gradients."""
        count, top = routing.chosen_NC.shape
        order = routing.chosen_NC.flatten().argsort(stable=True)
        parts = x_ND.index_select(0, order // top).split(self._sizes(routing.chosen_NC.flatten()))
        outs = [expert.transform(part) for expert, part in zip(self.experts, parts, strict=True)]  # type: ignore[operator]
        back_NCD = torch.cat(outs).index_select(0, order.argsort()).view(count, top, x_ND.shape[-1])
        return torch.einsum("ncd,nc->nd", back_NCD, routing.weights_NC.to(back_NCD.dtype))

    def _sizes(self, chosen: Tensor) -> list[int]:
        """How many tokens each expert takes; as good as even where there are no numbers to look at."""
        experts = self.options.experts
        if chosen.device.type == "meta":
            edges = [chosen.numel() * expert // experts for expert in range(experts + 1)]
            return [end - start for start, end in pairwise(edges)]
        sizes: list[int] = chosen.bincount(minlength=experts).tolist()
        return sizes


@dataclass(frozen=True)
class Routing:
    """Routing decision: experts and weights of each token, and the auxiliary losses."""

    chosen_NC: Tensor
    """Experts of each token, best first."""
    weights_NC: Tensor
    """Their weights; 0 for dropped tokens."""
    balance: Tensor
    """Load-balancing loss: 1 for an even load, up to E for one busy expert (Fedus et al. 2021, equation 4)."""
    logit: Tensor
    """Router z-loss: the mean square of logsumexp(logits) (Zoph et al. 2022, equation 5)."""


def route(logits_NE: Tensor, top: int, renormalise: bool, capacity: int | None) -> Routing:
    """Top-k routing; with a `capacity`, tokens in their order until an expert is full."""
    count, experts = logits_NE.shape
    probabilities_NE = logits_NE.softmax(-1)
    weights_NC, chosen_NC = probabilities_NE.topk(top, -1)
    if renormalise:
        weights_NC = weights_NC / weights_NC.sum(-1, keepdim=True)
    taken_NE = torch.zeros_like(probabilities_NE).scatter(1, chosen_NC, 1.0)
    if capacity is not None:
        # The queue depends on earlier tokens only, so that the future does not leak.
        queue_NC = taken_NE.cumsum(0).gather(1, chosen_NC)
        weights_NC = weights_NC.masked_fill(queue_NC > capacity, 0.0)
    tokens = max(count, 1)
    load_E, mean_E = taken_NE.sum(0) / (tokens * top), probabilities_NE.sum(0) / tokens
    balance = experts * (load_E * mean_E).sum()
    logit = logits_NE.logsumexp(-1).square().sum() / tokens
    return Routing(chosen_NC, weights_NC, balance, logit)
