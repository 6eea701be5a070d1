"""Varlen softmax attention in training, in C++ (varlen_attention.cpp): no padding, no transposes.

Shapes: B sequences, N packed tokens of queries, M of keys, D features; H heads, G key-value heads, E head_dim.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from kit.kernels.cpp.op_library import OpLibrary, supports_native

HEAD_DIM_MULTIPLE = 16
"""head_dim has to be a multiple of the SIMD width."""

LIBRARY = OpLibrary("varlen_attention", {"varlen_attention": None, "varlen_attention_backward": None}, needs="AVX512")


class HeadConfig(NamedTuple):
    """Numbers of heads, and how they attend."""

    heads: int
    kv_heads: int
    scale: float
    causal: bool


def supports(x: Tensor) -> bool:
    """Whether `varlen_attention` supports projections of x: float32 on a CPU, with gradients."""
    if not LIBRARY.loaded or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    return supports_native(x) and not torch.is_autocast_enabled("cpu")


def varlen_attention(
    query: Tensor, key_value: Tensor | None, cu_seqlens: tuple[Tensor, Tensor], config: HeadConfig
) -> Tensor:
    """Attends within packed sequences: [..., H * E].

    query: [..., H * E]; with key_value None, [..., (H + 2 * G) * E]: queries, keys and values side by side.
    key_value: [..., 2 * G * E], keys and values side by side; cu_seqlens: of queries and of keys, [B + 1] each.
    """
    key_value_MD = None if key_value is None else key_value.reshape(-1, key_value.shape[-1])
    out_ND: Tensor = _VarlenAttention.apply(query.reshape(-1, query.shape[-1]), key_value_MD, *cu_seqlens, config)  # type: ignore[no-untyped-call]
    return out_ND.view(*query.shape[:-1], out_ND.shape[1])


class _VarlenAttention(torch.autograd.Function):
    """Saves the attention weights, which short sequences can afford."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key_value: Tensor | None,
        q_cu_seqlens: Tensor,
        k_cu_seqlens: Tensor,
        config: HeadConfig,
    ) -> Tensor:
        query, key_value = _row_major(query), None if key_value is None else _row_major(key_value)
        operands = _split_fused(query, key_value, config)
        out, weights = torch.ops.kit.varlen_attention(*operands, q_cu_seqlens, k_cu_seqlens, *config)
        ctx.save_for_backward(weights, query, key_value, q_cu_seqlens, k_cu_seqlens)
        ctx.config = config
        return out  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weights, query, key_value, q_cu_seqlens, k_cu_seqlens = ctx.saved_tensors
        d_query, d_key_value = torch.empty_like(query), None if key_value is None else torch.empty_like(key_value)
        torch.ops.kit.varlen_attention_backward(
            _row_major(gradients[0]), weights, *_split_fused(query, key_value, ctx.config), q_cu_seqlens, k_cu_seqlens,
            *ctx.config, *_split_fused(d_query, d_key_value, ctx.config),
        )  # fmt: skip
        return d_query, d_key_value, None, None, None


def _split_fused(query: Tensor, key_value: Tensor | None, config: HeadConfig) -> tuple[Tensor, Tensor]:
    """Queries [N, H * E], and keys with values [M, 2 * G * E]."""
    if key_value is not None:
        return query, key_value
    size = query.shape[1] * config.heads // (config.heads + 2 * config.kv_heads)
    return query[:, :size], query[:, size:]


def _row_major(x: Tensor) -> Tensor:
    return x if x.stride(1) == 1 else x.contiguous()
