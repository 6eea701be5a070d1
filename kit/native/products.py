"""Products of large matrices in training by C++ of our own (products.cpp), quicker than those of libraries.

Shapes: R rows, K numbers that are summed, C columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kit.native.loading import Library

ENOUGH = 2**18
"""Multiplications from which on a product is sooner done here."""


LIBRARY = Library("products", {"product": None, "turned_product": None}, needs="AVX512")


def pays(multiplications: int) -> bool:
    """Whether a product of so many multiplications is better made here."""
    return LIBRARY.loaded and multiplications >= ENOUGH


def product(a_RK: Tensor, b_KC: Tensor, bias_C: Tensor | None = None) -> Tensor:
    """a times b, the bias added: [R, C]; float32, of any strides."""
    bias_C = None if bias_C is None else bias_C.contiguous()
    made_RC: Tensor = torch.ops.kit.product(_in_lines(a_RK), _in_lines(b_KC), bias_C)
    return made_RC


def turned_product(a_KR: Tensor, b_KC: Tensor) -> tuple[Tensor, Tensor]:
    """a, turned, times b: [R, C]; and the sum of a over K: [R]."""
    a_KR = a_KR if a_KR.stride(1) == 1 else a_KR.contiguous()
    made: tuple[Tensor, Tensor] = torch.ops.kit.turned_product(a_KR, _in_lines(b_KC))
    return made


def _in_lines(x: Tensor) -> Tensor:
    """A matrix whose rows, or columns, have their numbers side by side."""
    return x if 1 in x.stride() else x.contiguous()
