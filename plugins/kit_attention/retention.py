"""Multi-scale retention, linear attention with exponential decay: Retentive Network (Sun et al. 2023).

`attention_weights` is the parallel form, `attend` the chunkwise form, and a cache makes it recurrent; all three agree.
Shapes: B batch, H query heads, G key-value heads, L tokens, Q queries, K keys, N chunks, C tokens per chunk, E and F
dimensions of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import (
    AttentionContext,
    BuildContext,
    Cache,
    Capabilities,
    Dims,
    MultiHeadAttention,
    MultiHeadOptions,
    Problem,
    RecurrentCache,
    repeat_kv,
    without_autocast,
)
from kit_attention.left_align import LeftAligned
from kit_attention.subquadratic import at_least_float32, is_causal, refuse_dropout


class RetentionOptions(MultiHeadOptions):
    """Retention: each head decays at its own rate; linear cost, and a decoding cache of constant size."""

    use: Literal["retention"] = "retention"
    forgetting: PositiveFloat = 5.0
    """The first head decays by 1 - 2 ** -forgetting per token; each next head loses half as much."""
    norm: Literal["layer", "rms"] = "layer"
    """Norm per head: layer norm (the paper's group norm) or RMS norm (its authors' code)."""
    epsilon: PositiveFloat = 1e-5
    """Epsilon of that norm."""


class RetentionAttention(MultiHeadAttention):
    """Weights are q · k times decay ** distance, in both directions where there is no causal mask."""

    options_type = RetentionOptions
    options: RetentionOptions
    capabilities = Capabilities(
        weights_sum_to_one=False,
        masks=frozenset({"causal"}),
        positions=frozenset({"rotate"}),
        reads_memory=False,
        cost="linear",
    )

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.gate = nn.Linear(dims.width, self.heads * self.value_head_dim, options.bias)
        nn.init.xavier_uniform_(self.gate.weight)
        if options.bias:
            nn.init.zeros_(self.gate.bias)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Dropout is refused, and so is a layer norm over a single value."""
        yield from super().check(options, dims, build_context)
        yield from refuse_dropout(options, build_context, cls.name())
        width = options.value_head_dim or cls.head_shape(options, dims)[1]
        if options.norm == "layer" and width == 1:
            yield build_context.problem(
                "a layer norm over one number is always zero, and values have width 1", "norm", hint="take norm: rms"
            )

    @property
    def log_rate_H(self) -> Tensor:
        """The logarithm of the decay per token: [H] in float64."""
        lost = 2.0 ** (-self.options.forgetting - torch.arange(self.heads, dtype=torch.float64))
        return torch.log1p(-lost).to(self.output.weight.device)

    def start(self) -> Cache:
        """The decayed sum of k v over the keys so far."""
        return RecurrentCache()

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        """Project, retain, normalise each head, gate, project the output: like x."""
        if not isinstance(state, RecurrentCache):
            return super().forward(x, memory, context, state)
        q, k, v = self.project(x, memory, context, None)
        out_BHQF = self._retain(q, k, v, context, state)
        if context.observer is not None:
            context.observer.without_weights(
                self.build_context, "step by step it remembers a sum over keys, and no key by itself"
            )
            out_BHQF = context.observer.heads(self.build_context, out_BHQF)
        return self.project_output(context.queries.from_heads(out_BHQF), x)

    def project_output(self, out: Tensor, x: Tensor) -> Tensor:
        """Norm per head, swish gate, output projection: [..., D]."""
        heads = out.unflatten(-1, (self.heads, self.value_head_dim))
        if self.options.norm == "layer":
            heads = F.layer_norm(heads, heads.shape[-1:], eps=self.options.epsilon)
        else:
            heads = F.rms_norm(heads, heads.shape[-1:], eps=self.options.epsilon)
        return super().project_output(F.silu(self.gate(x)) * heads.flatten(-2), x)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """The parallel form, scaled dot products times decay ** distance, possibly negative: [B, H, Q, K]."""
        is_causal(context, self.name())
        scores_BHQK = (q_BHQE * self.scale) @ repeat_kv(k_BGKE, q_BHQE).transpose(-1, -2)
        distance_B1QK = (
            context.queries.token_index[:, None, :, None] - context.keys.token_index[:, None, None, :]
        ).abs()
        left_BHQK = (self.log_rate_H[:, None, None] * distance_B1QK).exp().to(scores_BHQK.dtype)
        weights_BHQK = scores_BHQK * left_BHQK
        return weights_BHQK if context.attention_mask is None else weights_BHQK * context.attention_mask

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """The chunkwise form, in time linear in the length: [B, H, Q, F]."""
        return self._retain(q_BHQE, k_BGKE, v_BGKF, context, None)

    def _retain(
        self, q_BHQE: Tensor, k_BGQE: Tensor, v_BGQF: Tensor, context: AttentionContext, state: RecurrentCache | None
    ) -> Tensor:
        known_BHEF = None if state is None else state.values.get("sum")
        rows = LeftAligned(context.queries)
        real = rows.layout.padding_mask
        with without_autocast(q_BHQE):
            k_BHQE, v_BHQF = (at_least_float32(repeat_kv(each, q_BHQE)) for each in (k_BGQE, v_BGQF))
            q, k, v = (rows.align(each) for each in (at_least_float32(q_BHQE) * self.scale, k_BHQE, v_BHQF))
            k = k if real is None else k * real[:, None, :, None]
            rate_H = self.log_rate_H.to(q.dtype)
            out_BHQF = decayed_linear_sums(q, k, v, rate_H, known_BHEF)
            if not is_causal(context, self.name()):
                # The reverse direction; the token itself is in both.
                after_BHQF = decayed_linear_sums(q.flip(2), k.flip(2), v.flip(2), rate_H, None).flip(2)
                out_BHQF = out_BHQF + after_BHQF - (q * k).sum(-1, keepdim=True) * v
            if state is not None:
                state.values = {"sum": decayed_state(k, v, rate_H, known_BHEF, real)}
        return rows.restore(out_BHQF).to(v_BGQF.dtype)


_CHUNK = 128


def decayed_linear_sums(
    q_BHLE: Tensor, k_BHLE: Tensor, v_BHLF: Tensor, log_rate_H: Tensor, known_BHEF: Tensor | None
) -> Tensor:
    """Chunkwise sums of decay^distance (q · k) v over the keys up to each query: [B, H, L, F]."""
    length = q_BHLE.shape[2]
    size = min(_CHUNK, length)
    missing = -length % size
    q_BHNCE, k_BHNCE, v_BHNCF = (
        (F.pad(each, (0, 0, 0, missing)) if missing else each).unflatten(2, (-1, size))
        for each in (q_BHLE, k_BHLE, v_BHLF)
    )
    step_C = torch.arange(size, device=q_BHLE.device, dtype=q_BHLE.dtype)
    left_HCC = (log_rate_H[:, None, None] * (step_C[:, None] - step_C).clamp(min=0)).exp().tril()
    within_BHNCF = ((q_BHNCE @ k_BHNCE.transpose(-1, -2)) * left_HCC[:, None]) @ v_BHNCF
    # The state at the end of each chunk, and its decay at every position of the next.
    ending_HC1 = (log_rate_H[:, None] * (size - 1 - step_C)).exp()[..., None]
    since_HC1 = (log_rate_H[:, None] * (step_C + 1)).exp()[..., None]
    each_BHNEF = (k_BHNCE * ending_HC1[:, None]).transpose(-1, -2) @ v_BHNCF
    over_H11 = (log_rate_H * size).exp()[:, None, None]
    before = [torch.zeros_like(each_BHNEF[:, :, 0]) if known_BHEF is None else known_BHEF]
    for chunk_BHEF in each_BHNEF.unbind(2)[:-1]:
        before.append(before[-1] * over_H11 + chunk_BHEF)
    out_BHNCF = within_BHNCF + (q_BHNCE * since_HC1[:, None]) @ torch.stack(before, 2)
    out_BHLF: Tensor = out_BHNCF.flatten(2, 3)
    return out_BHLF[:, :, :length] if missing else out_BHLF


def decayed_state(
    k_BHLE: Tensor, v_BHLF: Tensor, log_rate_H: Tensor, known_BHEF: Tensor | None, real_BL: Tensor | None
) -> Tensor:
    """The decayed state of all keys and of the earlier state after each row's last real token: [B, H, E, F]."""
    length = k_BHLE.shape[2]
    place_L = torch.arange(length, device=k_BHLE.device)
    count_B1 = torch.full((1, 1), length, device=k_BHLE.device) if real_BL is None else real_BL.sum(1, keepdim=True)
    since_BL = (count_B1 - 1 - place_L).clamp(min=0).to(k_BHLE.dtype)
    left_BHL = (log_rate_H[:, None] * since_BL[:, None]).exp()
    total_BHEF = (k_BHLE * left_BHL[..., None]).transpose(-1, -2) @ v_BHLF
    if known_BHEF is None:
        return total_BHEF
    return total_BHEF + known_BHEF * (log_rate_H * count_B1.to(k_BHLE.dtype)).exp()[:, :, None, None]
