"""Which library multiplies matrices on this CPU, and linear layers that are trained by it.

MKL, which torch calls for float32, is at its best on Intel's processors. On AMD's oneDNN, which torch brings too, takes
a fifth less time for the products of a training step, and half as long for a few rows with a matrix stored as it likes.
Where there is a compiler, large products of a training step are made by C++ of our own, which is quicker yet.

Shapes: N rows, I numbers in, O numbers out.
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

from kit.native import dropping, products, texts
from kit.native.plain import is_plain

SEVERAL = 16
"""From so many rows on the library is called directly in training; for fewer, the way there costs more than is won."""

SHAPES = 64
"""How many kinds of product oneDNN remembers: more than a step has."""


@lru_cache(maxsize=1)
def prefers_onednn() -> bool:
    """Whether float32 products are better left to oneDNN here."""
    known = Path("/proc/cpuinfo")
    vendor = known.read_text().partition("vendor_id")[2].partition("\n")[0] if known.exists() else ""
    built = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return built and "AuthenticAMD" in vendor and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


def multiply(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """x [..., I] times a matrix, in a strip of rows or stored by `cut`: [..., O]; by oneDNN, without gradients."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight_OI, bias_O, "none", [], "")
    return product


def cut(weight_OI: Tensor, rows: int) -> Any:
    """A matrix stored as oneDNN reads it soonest for so many rows; it serves any number."""
    return torch.ops.mkldnn._reorder_linear_weight(weight_OI.contiguous(), rows)


class Linear(nn.Linear):
    """torch's linear layer, multiplied by another library where that pays."""

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., I]; returns [..., O]."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """As torch's, with gradients."""
    if torch.compiler.is_compiling() or not pays(x, weight_OI) or not _fit(x, weight_OI, bias_O):
        return F.linear(x, weight_OI, bias_O)
    product: Tensor = _Product.apply(x, weight_OI, bias_O)  # type: ignore[no-untyped-call]
    return product


def pays(x: Tensor, weight_OI: Tensor) -> bool:
    """Whether this product is better not left to MKL."""
    if not prefers_onednn() or not is_plain(x):
        return False
    if weight_OI.dtype != torch.float32 or type(weight_OI) not in (Tensor, nn.Parameter):
        return False
    return x.numel() >= SEVERAL * x.shape[-1] and not torch.is_autocast_enabled("cpu")


def _fit(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> bool:
    """Whether there is a product at all; else torch says why not."""
    plain = weight_OI.ndim == 2 and x.ndim > 0 and x.shape[-1] == weight_OI.shape[1]
    return plain and (bias_O is None or (bias_O.shape == weight_OI.shape[:1] and bias_O.dtype == x.dtype))


def speed_up(model: nn.Module) -> None:
    """Have a model's linear layers multiplied by the library that is quicker here, in training too; C++ made ready."""
    texts.LIBRARY.load()
    dropping.LIBRARY.load()
    if prefers_onednn():
        remember_few()
        products.LIBRARY.load()
        for module in model.modules():
            if type(module) is nn.Linear:
                module.__class__ = Linear


def remember_few() -> None:
    """Have oneDNN remember only the kinds of product of a step or two; of use before its first one.

    It keeps what it has made for each shape, and torch once more, both for 1,024 of them. Batches of real tokens hardly
    ever have the same number twice, so that a training grew by a gigabyte in its first hundred steps.
    """
    for capacity in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(capacity, str(SHAPES))


class _Product(torch.autograd.Function):
    """By C++ of our own where that is ready; else by oneDNN, and by torch where oneDNN would have to turn a factor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        x_NI = x.reshape(-1, x.shape[-1])
        ctx.save_for_backward(x_NI, weight_OI)
        ctx.biased = bias_O is not None
        ctx.native = products.pays(x_NI.shape[0] * weight_OI.numel())
        if ctx.native:
            return products.product(x_NI, weight_OI.t(), bias_O).view(*x.shape[:-1], -1)
        return multiply(x_NI, weight_OI, bias_O).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x_NI, weight_OI = ctx.saved_tensors
        d_out_NO = gradients[0].reshape(-1, weight_OI.shape[0])
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        d_x = d_weight = d_bias = None
        if wants_x:
            d_x_NI = products.product(d_out_NO, weight_OI) if ctx.native else multiply(d_out_NO, weight_OI.t())
            d_x = d_x_NI.view(*gradients[0].shape[:-1], -1)
        if wants_weight and ctx.native:
            d_weight, d_bias = products.turned_product(d_out_NO, x_NI)
        elif wants_weight:
            d_weight = d_out_NO.t() @ x_NI
        if not (ctx.biased and wants_bias):
            d_bias = None
        elif d_bias is None:
            d_bias = d_out_NO.sum(0)
        return d_x, d_weight, d_bias
