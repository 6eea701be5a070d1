"""Multi-head latent attention (MLA), which caches one compressed vector per token: DeepSeek-V2 (2024), section 2.1.

Shapes: B batch, H heads, Q queries, K keys, C rank of the compressed keys and values, E head dimension without rotation
(nope), R rotated head dimension (rope), X = E + R (or C + R), F value dimension, M = E + F.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import (
    Attention,
    AttentionContext,
    BuildContext,
    Cache,
    Capabilities,
    CrossAttentionKVCache,
    Dims,
    KVCache,
    Options,
    Problem,
)


class LatentOptions(Options):
    """Multi-head latent attention: keys and values are projections of a compressed vector, which is what is cached."""

    use: Literal["latent"] = "latent"
    heads: PositiveInt = 8
    """Number of attention heads."""
    kv_lora_rank: PositiveInt | None = None
    """Dimension of the compressed vector of keys and values; left out, four times `head_dim`."""
    q_lora_rank: PositiveInt | None = None
    """Rank of the query projection, with an RMS norm in between; left out, full rank."""
    head_dim: PositiveInt | None = None
    """Head dimension of queries and keys without rotation; left out, the model's width over the heads."""
    rope_head_dim: PositiveInt | None = None
    """Rotated head dimension, whose key all heads share; left out, half of `head_dim`, made even."""
    value_head_dim: PositiveInt | None = None
    """Head dimension of values; left out, `head_dim`."""
    bias: bool = False
    """Whether the down projections and the output have a bias."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout probability of attention weights."""

    def widths(self, width: int) -> tuple[int, int, int, int]:
        """`kv_lora_rank`, `head_dim`, `rope_head_dim` and `value_head_dim`, defaults filled in."""
        content = self.head_dim or max(1, width // self.heads)
        rotated = self.rope_head_dim or max(2, content // 4 * 2)
        return self.kv_lora_rank or 4 * content, content, rotated, self.value_head_dim or content


class LatentAttention(Attention):
    """Caches the compressed vector and one rotated key per token; decoding attends to these directly (absorbed)."""

    options_type = LatentOptions
    options: LatentOptions
    # A bias from content would see the rotated part alone.
    capabilities = Capabilities(positions=frozenset({"rotate", "bias"}))

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.heads, self.widths = options.heads, options.widths(dims.width)
        rank, content, rotated, value = self.widths
        self.scale = float((content + rotated) ** -0.5)
        queries = self.heads * (content + rotated)
        if options.q_lora_rank is None:
            self.query = nn.Linear(dims.width, queries, options.bias)
        else:
            self.query_down = nn.Linear(dims.width, options.q_lora_rank, options.bias)
            self.query_gain = nn.Parameter(torch.ones(options.q_lora_rank))
            self.query_up = nn.Linear(options.q_lora_rank, queries, bias=False)
        self.down = nn.Linear(dims.width if dims.memory is None else dims.memory, rank + rotated, options.bias)
        self.gain = nn.Parameter(torch.ones(rank))
        self.up = nn.Linear(rank, self.heads * (content + value), bias=False)
        self.output = nn.Linear(self.heads * value, dims.width, options.bias)
        for module in self.children():
            assert isinstance(module, nn.Linear)
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    @classmethod
    def head_shape(cls, options: Any, dims: Dims) -> tuple[int, int]:
        """Heads, and the rotated head dimension."""
        return options.heads, options.widths(dims.width)[2]

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Heads must divide the width, unless `head_dim` is given."""
        if options.head_dim is None and dims.width % options.heads:
            yield build_context.problem(
                f"{options.heads} heads do not divide the width {dims.width}",
                "heads",
                hint="take a number of heads that divides the width, or name a head_dim",
            )

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        """Compress, cache, attend, project the output: like x."""
        content_BHQE, rotated_BHQR = self._queries(x, context)
        latent_B1KC, shared_B1KR = self._keys(x, memory, context, state)
        up_HMC = self.up.weight.unflatten(0, (self.heads, -1))
        key_HEC, value_HFC = up_HMC.split((self.widths[1], self.widths[3]), 1)
        if state is not None and self._is_cheaper_compressed(content_BHQE.shape[2]):
            # The key projection is absorbed into the queries, so that cached keys and values are never expanded.
            q_BHQX = torch.cat([content_BHQE @ key_HEC, rotated_BHQR], -1)
            k_B1KX = torch.cat([latent_B1KC, shared_B1KR], -1)
            out_BHQC, weights_BHQK = self._attend(q_BHQX, k_B1KX, latent_B1KC, context)
            out_BHQF = out_BHQC @ value_HFC.transpose(1, 2)
        else:
            q_BHQX = torch.cat([content_BHQE, rotated_BHQR], -1)
            made_BHKM = latent_B1KC @ up_HMC.transpose(1, 2)
            k_BHKE, v_BHKF = made_BHKM.split((self.widths[1], self.widths[3]), -1)
            k_BHKX = torch.cat([k_BHKE, shared_B1KR.expand(-1, self.heads, -1, -1)], -1)
            out_BHQF, weights_BHQK = self._attend(q_BHQX, k_BHKX, v_BHKF, context)
        if context.observer is not None and weights_BHQK is not None:
            context.observer.weights(self.build_context, weights_BHQK, context)
            out_BHQF = context.observer.heads(self.build_context, out_BHQF)
        joined: Tensor = self.output(context.queries.from_heads(out_BHQF))
        return joined

    def value_output_parameters(self) -> list[Tensor]:
        """The value rows of the up projection, and the output; the down projection is followed by a norm."""
        up_HMC = self.up.weight.unflatten(0, (self.heads, -1))
        return [up_HMC[:, self.widths[1] :], self.output.weight]

    def start(self) -> Cache:
        """Compressed vectors and rotated keys of the tokens so far, or of the memory."""
        return KVCache() if self.dims.memory is None else CrossAttentionKVCache(keep_contiguous=True)

    def _queries(self, x: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        if self.options.q_lora_rank is None:
            q = self.query(x)
        else:
            q = self.query_up(_rms_norm(self.query_down(x), self.query_gain))
        q_BHQX = context.queries.pad(q).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        content_BHQE, rotated_BHQR = q_BHQX.split((self.widths[1], self.widths[2]), -1)
        return content_BHQE, context.rotate_queries(rotated_BHQR)

    def _keys(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None
    ) -> tuple[Tensor, Tensor]:
        if isinstance(state, CrossAttentionKVCache) and state.projected is not None:
            return state.projected
        source, layout = (x, context.queries) if self.dims.memory is None else (memory, context.keys)
        assert source is not None, f"{self.build_context.name} attends to a memory and was given none"
        latent, shared = self.down(source).split((self.widths[0], self.widths[2]), -1)
        latent_B1KC = layout.pad(_rms_norm(latent, self.gain))[:, None]
        shared_B1KR = context.rotate_keys(layout.pad(shared)[:, None])
        if isinstance(state, KVCache):
            return state.append(latent_B1KC, shared_B1KR)
        if isinstance(state, CrossAttentionKVCache):
            return state.store(latent_B1KC, shared_B1KR)
        return latent_B1KC, shared_B1KR

    def _is_cheaper_compressed(self, queries: int) -> bool:
        """Whether absorbed attention costs less than expanding keys and values; both grow alike with keys and heads."""
        rank, content, _, value = self.widths
        return bool(queries * (2 * rank - content - value) < rank * (content + value))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor | None]:
        dropout = self.options.dropout if self.training else 0.0
        if context.observer is None and not (dropout > 0 and q.device.type == "cpu"):
            return context.attend(q, k, v, self.scale, dropout), None
        return context.attend_eager(q, k, v, self.scale, dropout)


def _rms_norm(x: Tensor, gain: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], eps=1e-6) * gain
