"""A mixture of experts, of which each token takes the best few: Outrageously Large Networks (Shazeer et al. 2017).

Switch Transformers (Fedus et al. 2021); ST-MoE (Zoph et al. 2022).

Shapes: N real tokens, D width, E experts, C choices of a token.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from kit import Dims, Feedforward, FeedforwardSlot, Options, Problem, Scope, Site, State, without_autocast
from kit_feedforward.routing import Routing, route


class MixtureOptions(Options):
    """Many feed-forward layers of one kind, and a router that sends each token to a few of them."""

    use: Literal["mixture"] = "mixture"
    expert: FeedforwardSlot
    """What each expert is: any feed-forward part that treats tokens one by one."""
    experts: int = Field(default=8, ge=2)
    """How many there are."""
    top: PositiveInt = 2
    """How many of them each token takes."""
    weights: Literal["renormalised", "softmax"] = "renormalised"
    """Whether the chosen experts' shares are brought to a sum of 1 (Mixtral), or stay their shares of all (Switch)."""
    capacity: PositiveFloat | None = None
    """In training, how many times its fair share of tokens an expert takes before it lets the rest pass; left out, all.

    Outside training nothing is left out, so that no text's result depends on the texts beside it.
    """
    balance: NonNegativeFloat = 0.01
    """Weight of the loss that evens out the experts' work."""
    logit: NonNegativeFloat = 0.001
    """Weight of the loss that keeps the router's scores small (the z-loss of ST-MoE)."""
    jitter: float = Field(default=0.0, ge=0.0, lt=1.0)
    """In training, what the router sees is multiplied by numbers up to this far from 1."""


class MixtureFeedforward(Feedforward):
    """Padding is never sent anywhere, and counts neither for the losses nor against an expert's capacity."""

    options_type = MixtureOptions
    regroups_tokens = True
    options: MixtureOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.router = nn.Parameter(torch.empty(options.experts, dims.width))
        nn.init.normal_(self.router, std=dims.width**-0.5)
        self.experts = nn.ModuleList(site.at("expert").build(options.expert, dims) for _ in range(options.experts))

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Choices among the experts, and experts that need no neighbours."""
        if options.top > options.experts:
            yield site.problem(
                f"each token takes {options.top} of {options.experts} experts",
                "top",
                hint=f"take top: {options.experts} or fewer",
            )
        if options.top == 1 and options.weights == "renormalised":
            yield site.problem(
                "a single expert's renormalised share is always 1, which tells the router nothing",
                "weights",
                hint="write weights: softmax",
            )
        component = site.component_of(options.expert)
        if component.forward is not Feedforward.forward:  # type: ignore[attr-defined]
            yield site.problem(
                f"an expert sees scattered tokens, and the feedforward {component.part_name()} needs whole texts",
                "expert",
                hint="choose a feedforward that treats each token by itself, such as relu",
            )
        yield from site.at("expert").check(options.expert, dims)

    def forward(self, x: Tensor, scope: Scope, state: State | None = None) -> Tensor:
        """Real tokens to their experts and back; padding gives zero."""
        layout = scope.queries
        if layout.is_packed or layout.valid is None or x.device.type == "meta":
            return self.transform(x)
        packed = layout.packed()
        return packed.pad(self.transform(packed.unpad(x)))

    def transform(self, x: Tensor) -> Tensor:
        """x: [..., D], real tokens only."""
        x_ND = x.reshape(-1, x.shape[-1])
        routing = route(self._scores(x_ND), self.options.top, self.options.weights == "renormalised", self._room(x_ND))
        if self.options.balance > 0:
            self.add_loss("balance", self.options.balance * routing.balance)
        if self.options.logit > 0:
            self.add_loss("router_logit", self.options.logit * routing.logit)
        return self._dispatch(x_ND, routing).reshape(x.shape)

    def value_path(self) -> list[Tensor]:
        """The experts'; the router chooses."""
        return [weight for expert in self.experts for weight in expert.value_path()]  # type: ignore[operator]

    def _scores(self, x_ND: Tensor) -> Tensor:
        """[N, E] in float32 at least: a router in half precision flips choices."""
        with without_autocast(x_ND):
            dtype = torch.promote_types(x_ND.dtype, torch.float32)
            x_ND = x_ND.to(dtype)
            if self.training and self.options.jitter > 0:
                x_ND = x_ND * torch.empty_like(x_ND).uniform_(1 - self.options.jitter, 1 + self.options.jitter)
            return x_ND @ self.router.to(dtype).t()

    def _room(self, x_ND: Tensor) -> int | None:
        """How many tokens an expert takes; None for all."""
        if not self.training or self.options.capacity is None:
            return None
        return max(1, round(self.options.capacity * x_ND.shape[0] * self.options.top / self.options.experts))

    def _dispatch(self, x_ND: Tensor, routing: Routing) -> Tensor:
        """Tokens sorted by expert, each expert once, and back; one without tokens runs on none, for its gradients."""
        count, top = routing.chosen_NC.shape
        order = routing.chosen_NC.flatten().argsort(stable=True)
        parts = x_ND.index_select(0, order // top).split(self._sizes(routing.chosen_NC.flatten()))
        outs = [expert.transform(part) for expert, part in zip(self.experts, parts, strict=True)]  # type: ignore[operator]
        back_NCD = torch.cat(outs).index_select(0, order.argsort()).view(count, top, x_ND.shape[-1])
        return torch.einsum("ncd,nc->nd", back_NCD, routing.shares_NC.to(back_NCD.dtype))

    def _sizes(self, chosen: Tensor) -> list[int]:
        """How many tokens each expert takes; as good as even where there are no numbers to look at."""
        experts = self.options.experts
        if chosen.device.type == "meta":
            edges = [chosen.numel() * expert // experts for expert in range(experts + 1)]
            return [end - start for start, end in pairwise(edges)]
        sizes: list[int] = chosen.bincount(minlength=experts).tolist()
        return sizes
