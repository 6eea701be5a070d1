"""Attention without softmax that forgets at a steady rate: Retentive Network (Sun et al. 2023).

The parallel form is `weigh`, the form in chunks is `attend`, and a state makes it recurrent; all three agree.
Shapes: B rows, H heads, G groups, L tokens, Q queries, K keys, E width of a key, F of a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import (
    Abilities,
    Dims,
    MultiHeadAttention,
    MultiHeadOptions,
    Problem,
    Scope,
    Site,
    State,
    TensorState,
    repeat_groups,
    without_autocast,
)
from kit_attention.decaying import decayed_sums, decayed_total
from kit_attention.only import looks_back, refuse_dropout
from kit_attention.real_first import RealFirst
from kit_attention.widening import widened


class RetentionOptions(MultiHeadOptions):
    """Each head forgets at its own rate; a state of constant size, and cost that grows with the text alone."""

    use: Literal["retention"] = "retention"
    forgetting: PositiveFloat = 5.0
    """The first head loses 2 ** -forgetting of the past with every token, each next head half as much."""
    norm: Literal["layer", "rms"] = "layer"
    """How each head is normalised: mean and size (the paper's group norm), or size alone (its authors' code)."""
    epsilon: PositiveFloat = 1e-5
    """What keeps that from dividing by zero."""


class RetentionAttention(MultiHeadAttention):
    """Scores are q · k, times a power of the head's rate; where the future is not hidden, it is forgotten alike."""

    options_type = RetentionOptions
    options: RetentionOptions
    abilities = Abilities(
        shares=False, masks=frozenset({"causal"}), positions=frozenset({"rotate"}), reads_memory=False, cost="linear"
    )

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.gate = nn.Linear(dims.width, self.heads * self.value_width, options.bias)
        nn.init.xavier_uniform_(self.gate.weight)
        if options.bias:
            nn.init.zeros_(self.gate.bias)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """There are no weights to drop, and something must be left after the norm."""
        yield from super().check(options, dims, site)
        yield from refuse_dropout(options, site, cls.part_name())
        width = options.value_width or cls.head_shape(options, dims)[1]
        if options.norm == "layer" and width == 1:
            yield site.problem(
                "a layer norm over one number is always zero, and values have width 1", "norm", hint="take norm: rms"
            )

    @property
    def log_rate_H(self) -> Tensor:
        """The logarithm of what is left of the past after a token, for each head."""
        lost = 2.0 ** (-self.options.forgetting - torch.arange(self.heads, dtype=torch.float64))
        return torch.log1p(-lost).to(self.output.weight.device)

    def start(self) -> State:
        """One sum over all keys so far, older ones fainter."""
        return TensorState()

    def forward(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None = None) -> Tensor:
        """Project, retain, normalise each head, gate, join."""
        if not isinstance(state, TensorState):
            return super().forward(x, memory, scope, state)
        q, k, v = self.project(x, memory, scope, None)
        out_BHQF = self._retain(q, k, v, scope, state)
        if scope.watcher is not None:
            scope.watcher.without_weights(self.site, "step by step it remembers a sum over keys, and no key by itself")
            out_BHQF = scope.watcher.heads(self.site, out_BHQF)
        return self.join(scope.queries.from_heads(out_BHQF), x)

    def join(self, out: Tensor, x: Tensor) -> Tensor:
        """Every head normalised by itself, then gated by the token's own vector."""
        heads = out.unflatten(-1, (self.heads, self.value_width))
        if self.options.norm == "layer":
            heads = F.layer_norm(heads, heads.shape[-1:], eps=self.options.epsilon)
        else:
            heads = F.rms_norm(heads, heads.shape[-1:], eps=self.options.epsilon)
        return super().join(F.silu(self.gate(x)) * heads.flatten(-2), x)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """The parallel form: scaled dot products times the rate to the power of the distance. They may be negative."""
        looks_back(scope, self.part_name())
        scores_BHQK = (q_BHQE * self.scale) @ repeat_groups(k_BGKE, q_BHQE).transpose(-1, -2)
        distance_B1QK = (scope.queries.order[:, None, :, None] - scope.keys.order[:, None, None, :]).abs()
        left_BHQK = (self.log_rate_H[:, None, None] * distance_B1QK).exp().to(scores_BHQK.dtype)
        weights_BHQK = scores_BHQK * left_BHQK
        return weights_BHQK if scope.allowed is None else weights_BHQK * scope.allowed

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """The form in chunks."""
        return self._retain(q_BHQE, k_BGKE, v_BGKF, scope, None)

    def _retain(
        self, q_BHQE: Tensor, k_BGQE: Tensor, v_BGQF: Tensor, scope: Scope, state: TensorState | None
    ) -> Tensor:
        known_BHEF = None if state is None else state.values.get("sum")
        rows = RealFirst(scope.queries)
        real = rows.layout.valid
        with without_autocast(q_BHQE):
            k_BHQE, v_BHQF = (widened(repeat_groups(each, q_BHQE)) for each in (k_BGQE, v_BGQF))
            q, k, v = (rows.forth(each) for each in (widened(q_BHQE) * self.scale, k_BHQE, v_BHQF))
            k = k if real is None else k * real[:, None, :, None]
            rate_H = self.log_rate_H.to(q.dtype)
            out_BHQF = decayed_sums(q, k, v, rate_H, known_BHEF)
            if not looks_back(scope, self.part_name()):
                # The same from the end; the token itself was in both.
                after_BHQF = decayed_sums(q.flip(2), k.flip(2), v.flip(2), rate_H, None).flip(2)
                out_BHQF = out_BHQF + after_BHQF - (q * k).sum(-1, keepdim=True) * v
            if state is not None:
                state.values = {"sum": decayed_total(k, v, rate_H, known_BHEF, real)}
        return rows.back(out_BHQF).to(v_BGQF.dtype)
