"""Lays weight matrices out in memory as decoding reads them; numbers and shapes stay the same.

Shapes: I numbers in, O numbers out.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit.matrices import cut, multiply, prefers_onednn, remember_few
from kit.memory import keep_memory
from kit.model.families import Model
from kit.model.side import Side

SEVERAL = 4
"""From so many rows on, what MKL stores itself is read sooner than rows are; oneDNN's is for any number."""
ROWS = {"mkl": 160, "onednn": 32}
"""How many rows a library is told of when it stores a matrix: it serves any number, and was the quickest for all."""


class Arranged(nn.Module):
    """A linear layer that only runs forward, on a CPU, its matrix stored as the library cuts it up.

    For every product MKL and oneDNN copy the right matrix into pieces that fit their kernels; here that is done once,
    when the first rows come, and takes up to two thirds off the time of a few. In compiled steps one row is multiplied
    by a loop of its own, which a compiler joins with what comes after: half the time of either library. More rows are
    an operation of ours there, by the layer's number, since no compiler takes a matrix that a library has stored.
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight_OI.shape
        self.library = _library(weight_OI.dtype)
        self.weight = nn.Parameter(weight_OI.detach(), requires_grad=False)
        self.bias = None if bias_O is None else nn.Parameter(bias_O.detach(), requires_grad=False)
        self._pieces: Any = None
        self.number = next(_numbers)
        _arranged[self.number] = self

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., I]; returns [..., O]."""
        rows = x.numel() // self.in_features
        compiled = torch.compiler.is_compiling()
        if compiled and rows == 1:
            return self._multiply_one(x)
        if self.library is None or (self.library == "mkl" and rows < SEVERAL):
            return F.linear(x, self.weight, self.bias)
        if compiled:
            later: Tensor = torch.ops.kit.arranged(x, self.number, self.out_features)
            return later
        return self.multiply(x)

    def multiply(self, x: Tensor) -> Tensor:
        """The same by the library's own matrix, which is made by the first call."""
        if self.library == "onednn":
            if self._pieces is None:
                self._pieces = cut(self.weight, ROWS["onednn"])
            return multiply(x, self._pieces, self.bias)
        if self._pieces is None:
            self._pieces = torch.ops.mkl._mkl_reorder_linear_weight(self.weight.contiguous(), ROWS["mkl"])
        rows = x.numel() // self.in_features
        product: Tensor = torch.ops.mkl._mkl_linear(x, self._pieces, self.weight, self.bias, rows)
        return product

    def _multiply_one(self, x: Tensor) -> Tensor:
        product_O = (x.reshape(-1) * self.weight).sum(-1)
        product_O = product_O if self.bias is None else product_O + self.bias
        return product_O.view(*x.shape[:-1], -1)


_numbers = count()
_arranged: WeakValueDictionary[int, Arranged] = WeakValueDictionary()
_operations = torch.library.Library("kit", "FRAGMENT")
_operations.define("arranged(Tensor x, int number, int out) -> Tensor")


@torch.library.impl(_operations, "arranged", "CPU")
def _multiply(x: Tensor, number: int, out: int) -> Tensor:
    return _arranged[number].multiply(x)


def _shape(x: Tensor, number: int, out: int) -> Tensor:
    return x.new_empty(*x.shape[:-1], out)


torch.library.register_fake("kit::arranged", _shape, lib=_operations)


def _library(dtype: torch.dtype) -> str | None:
    """Who stores matrices of this type; None where nobody does."""
    if dtype != torch.float32:
        return None
    if prefers_onednn():
        return "onednn"
    return "mkl" if torch.backends.mkl.is_available() and hasattr(torch.ops.mkl, "_mkl_linear") else None


@torch.no_grad()
def arrange(model: Model) -> None:
    """Store matrices as a CPU multiplies a few tokens with them, for a model that will only write."""
    if any(tensor.device.type != "cpu" for tensor in model.parameters()):
        return
    keep_memory()
    if prefers_onednn():
        remember_few()
    _arrange_scores(model)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, Arranged(child.weight, child.bias))


def _arrange_scores(model: Model) -> None:
    """The way back to tokens; a table that is looked up stays row by row."""
    side = getattr(model, "decoder", None) or getattr(model, "encoder", None)
    assert isinstance(side, Side)
    found = model.head.matrix(side.embedding if model.tied else None)
    if found is None:
        return
    scores = Arranged(*found)
    # Beside the head's own parameters, so that the model's names stay what they are.
    model.head.__dict__["forward"] = lambda x, layout, embedding: scores(x)
