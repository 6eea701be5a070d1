"""Decode kernels in C++ (decode.cpp): prepacked small-M GEMM and decode attention.

GEMM libraries are made for large matrices; for a few rows, half of their time is overhead. `gemm_prepacked` reads a
weight once, at memory bandwidth, for up to six rows at a time, and on the tested processors is not slower for hundreds
of rows. `decode_attention` reads keys and values in place, and skips keys that are masked for all queries.

Shapes: R rows, I input features, O output features, N blocks of 64 of them; B rows, H heads, G key-value heads,
Q queries, K keys, E head_dim of queries and keys, F head_dim of values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kit.kernels.cpp.op_library import OpLibrary

BLOCK = 64
"""Output features per block of a prepacked weight."""
MAX_QUERIES = 64
"""Up to so many queries, `decode_attention` is faster than SDPA, whose blocks are made for many queries."""


def prepack_weight(weight_OI: Tensor) -> Tensor:
    """Prepacks a weight for `gemm_prepacked` as [N, I, 64]; the last block is padded with zeros."""
    out_features, in_features = weight_OI.shape
    blocks = -(-out_features // BLOCK)
    padded = torch.nn.functional.pad(weight_OI.detach(), (0, 0, 0, blocks * BLOCK - out_features))
    return padded.view(blocks, BLOCK, in_features).transpose(1, 2).contiguous()


def supports_gemm(x: Tensor) -> bool:
    """Whether `gemm_prepacked` supports x: it has no gradient, and an exported graph must not contain it."""
    return x.dtype == torch.float32 and not x.requires_grad and not torch.compiler.is_exporting()


def gemm_prepacked(x: Tensor, packed_NIB: Tensor, bias_O: Tensor | None, out_features: int) -> Tensor:
    """Linear layer with a prepacked weight: x [..., I] to [..., O]."""
    x_RI = x.reshape(-1, x.shape[-1])
    out_RO: Tensor = torch.ops.kit.gemm_prepacked(x_RI, packed_NIB, bias_O, out_features)
    return out_RO.view(*x.shape[:-1], out_features)


def supports_attention(q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor) -> bool:
    """Whether `decode_attention` supports these tensors and is faster than SDPA."""
    if not LIBRARY.loaded or torch.compiler.is_exporting() or torch.is_grad_enabled() or q_BHQE.shape[2] > MAX_QUERIES:
        return False
    float_cpu = q_BHQE.device.type == "cpu" and q_BHQE.dtype == k_BGKE.dtype == v_BGKF.dtype == torch.float32
    rows = q_BHQE.stride(3) == 1 and v_BGKF.stride(3) == 1
    return float_cpu and rows and (k_BGKE.stride(3) == 1 or k_BGKE.stride(2) == 1)


def decode_attention(q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Softmax attention of a few queries: [B, H, Q, F]; fully masked queries get zeros.

    mask: added to scores, [B or 1, H or 1, Q or 1, K].
    """
    out_BHQF: Tensor = torch.ops.kit.decode_attention(q_BHQE, k_BGKE, v_BGKF, mask, scale)
    return out_BHQF


def _gemm_shape(x: Tensor, packed: Tensor, bias: Tensor | None, out_features: int) -> Tensor:
    return x.new_empty(x.shape[0], out_features)


def _attention_shape(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    rows, heads, queries, _ = q.shape
    return q.new_empty(rows, queries, heads, v.shape[3]).transpose(1, 2)


LIBRARY = OpLibrary("decode", {"gemm_prepacked": _gemm_shape, "decode_attention": _attention_shape})
C_SIGNATURES = {
    "gemm_prepacked": (
        "AtenTensorHandle x, AtenTensorHandle packed, AtenTensorHandle* bias, int64_t out_features",
        "x, packed, bias, out_features",
    ),
    "decode_attention": (
        "AtenTensorHandle q, AtenTensorHandle k, AtenTensorHandle v, AtenTensorHandle* mask, double scale",
        "q, k, v, mask, scale",
    ),
}
"""The C parameters of the operations and their names."""
