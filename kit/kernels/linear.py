"""Selects the CPU GEMM back end (MKL, oneDNN, own AVX-512) for linear layers, in training.

MKL, which torch calls for float32, is at its best on Intel's processors. On AMD's, oneDNN, which torch includes, takes
a fifth less time for the GEMMs of a training step, and half as long for a few rows with a prepacked weight. With a C++
compiler, large GEMMs of a training step are done by gemm.cpp, which is faster still.

Shapes: N rows, I input features, O output features; M, N, K: rows, columns and summed dimension of a GEMM.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from kit.kernels import dropout
from kit.kernels.cpp import varlen_attention
from kit.kernels.cpp.op_library import OpLibrary, supports_native

LIBRARY = OpLibrary("gemm", {"gemm": None, "gemm_tn": None}, needs="AVX512")
MIN_ROWS = 16
"""From so many rows on, training calls another back end than torch's; for fewer, overhead exceeds the gain."""
MIN_GEMM_MULTIPLICATIONS = 2**18
"""From so many multiplications on, gemm.cpp is faster than oneDNN."""
CACHED_PRIMITIVES = 64
"""Capacity of oneDNN's primitive cache: more than a step has GEMM shapes."""


class Linear(nn.Linear):
    """torch's linear layer, computed by the fastest back end."""

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., I]; returns [..., O]."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Linear layer like F.linear, with gradients: x [..., I] to [..., O]."""
    if torch.compiler.is_compiling() or not supports(x, weight_OI) or not _shapes_fit(x, weight_OI, bias_O):
        return F.linear(x, weight_OI, bias_O)
    out: Tensor = _LinearFunction.apply(x, weight_OI, bias_O)  # type: ignore[no-untyped-call]
    return out


def supports(x: Tensor, weight_OI: Tensor) -> bool:
    """Whether `_LinearFunction` supports these tensors and is faster than MKL."""
    if not prefers_onednn() or not supports_native(x):
        return False
    if weight_OI.dtype != torch.float32 or type(weight_OI) not in (Tensor, nn.Parameter):
        return False
    return x.numel() >= MIN_ROWS * x.shape[-1] and not torch.is_autocast_enabled("cpu")


def use_fast_linear(model: nn.Module) -> None:
    """Prepares a model for training: loads C++ kernels, and has its linear layers computed by the fastest back end."""
    varlen_attention.LIBRARY.load()
    dropout.LIBRARY.load()
    if prefers_onednn():
        limit_onednn_primitive_cache()
        LIBRARY.load()
        for module in model.modules():
            if type(module) is nn.Linear:
                module.__class__ = Linear


@lru_cache(maxsize=1)
def prefers_onednn() -> bool:
    """Whether oneDNN's float32 GEMM is faster than MKL's on this processor."""
    known = Path("/proc/cpuinfo")
    vendor = known.read_text().partition("vendor_id")[2].partition("\n")[0] if known.exists() else ""
    built = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return built and "AuthenticAMD" in vendor and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


def limit_onednn_primitive_cache() -> None:
    """Caps the oneDNN primitive cache (64 shapes): varying packed lengths otherwise leak ~1 GB.

    oneDNN caches what it has compiled for each shape, and torch once more, both 1,024 of them. Packed batches hardly
    ever have the same number of tokens twice. Has to be called before the first GEMM.
    """
    for capacity in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(capacity, str(CACHED_PRIMITIVES))


def onednn_linear(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Linear layer by oneDNN, without gradients: x [..., I] to [..., O]; the weight contiguous or prepacked."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight_OI, bias_O, "none", [], "")
    return out


def onednn_prepack(weight_OI: Tensor, rows: int) -> Any:
    """Prepacks a weight in oneDNN's blocked format for this number of rows; it serves any number."""
    return torch.ops.mkldnn._reorder_linear_weight(weight_OI.contiguous(), rows)


class _LinearFunction(torch.autograd.Function):
    """Linear layer by gemm.cpp if loaded; else by oneDNN, and by torch where oneDNN would transpose an operand."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        x_NI = x.reshape(-1, x.shape[-1])
        ctx.save_for_backward(x_NI, weight_OI)
        ctx.biased = bias_O is not None
        ctx.native = should_use_gemm(x_NI.shape[0] * weight_OI.numel())
        if ctx.native:
            return gemm(x_NI, weight_OI.t(), bias_O).view(*x.shape[:-1], -1)
        return onednn_linear(x_NI, weight_OI, bias_O).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x_NI, weight_OI = ctx.saved_tensors
        d_out_NO = gradients[0].reshape(-1, weight_OI.shape[0])
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        d_x = d_weight = d_bias = None
        if wants_x:
            d_x_NI = gemm(d_out_NO, weight_OI) if ctx.native else onednn_linear(d_out_NO, weight_OI.t())
            d_x = d_x_NI.view(*gradients[0].shape[:-1], -1)
        if wants_weight and ctx.native:
            d_weight, d_bias = gemm_tn(d_out_NO, x_NI)
        elif wants_weight:
            d_weight = d_out_NO.t() @ x_NI
        if not (ctx.biased and wants_bias):
            d_bias = None
        elif d_bias is None:
            d_bias = d_out_NO.sum(0)
        return d_x, d_weight, d_bias


def should_use_gemm(multiplications: int) -> bool:
    """Whether gemm.cpp is loaded and faster for a product of so many multiplications."""
    return LIBRARY.loaded and multiplications >= MIN_GEMM_MULTIPLICATIONS


def gemm(a_MK: Tensor, b_KN: Tensor, bias_N: Tensor | None = None) -> Tensor:
    """GEMM in C++ (gemm.cpp): a @ b + bias, [M, N]; float32, any strides."""
    bias_N = None if bias_N is None else bias_N.contiguous()
    out_MN: Tensor = torch.ops.kit.gemm(_with_unit_stride(a_MK), _with_unit_stride(b_KN), bias_N)
    return out_MN


def gemm_tn(a_KM: Tensor, b_KN: Tensor) -> tuple[Tensor, Tensor]:
    """GEMM with a transposed left operand: a.T @ b [M, N], and the sum of a over K [M]: weight and bias gradients."""
    a_KM = a_KM if a_KM.stride(1) == 1 else a_KM.contiguous()
    out: tuple[Tensor, Tensor] = torch.ops.kit.gemm_tn(a_KM, _with_unit_stride(b_KN))
    return out


def _with_unit_stride(x: Tensor) -> Tensor:
    """The matrix itself if it is row-major or column-major, else a copy."""
    return x if 1 in x.stride() else x.contiguous()


def _shapes_fit(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> bool:
    """Whether shapes and dtypes match; if not, F.linear raises its own error."""
    matches = weight_OI.ndim == 2 and x.ndim > 0 and x.shape[-1] == weight_OI.shape[1]
    return matches and (bias_O is None or (bias_O.shape == weight_OI.shape[:1] and bias_O.dtype == x.dtype))
