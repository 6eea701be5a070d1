"""Lays weight matrices out in memory as decoding reads them; numbers and shapes stay the same.

Shapes: I numbers in, O numbers out.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit.matrices import cut, multiply, prefers_onednn, remember_few
from kit.memory import keep_memory
from kit.model.families import Model
from kit.model.side import Side
from kit.native import few, likeliest
from kit.native.pages import huge_pages

SEVERAL = 4
"""From so many rows on, what MKL stores itself is read sooner than rows are; oneDNN's is for any number."""
ROWS = {"mkl": 160, "onednn": 32}
"""How many rows a library is told of when it stores a matrix: it serves any number, and was the quickest for all."""


class Arranged(nn.Module):
    """A linear layer that only runs forward, on a CPU, its matrix stored as whoever multiplies reads it.

    For every product a library copies the right matrix into pieces that fit its kernels; here that is done once. Where
    there is a C++ compiler the product is our own (kit/native), else MKL's or oneDNN's, which a compiler of steps
    cannot take, so that compiled steps leave such a product to torch.
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight_OI.shape
        self.library = _library(weight_OI.dtype)
        self.weight = nn.Parameter(weight_OI.detach(), requires_grad=False)
        self.bias = None if bias_O is None else nn.Parameter(bias_O.detach(), requires_grad=False)
        self.stored: Tensor | None
        self.register_buffer("stored", few.store(weight_OI) if self.library == "native" else None, persistent=False)
        self._pieces: Any = None

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., I]; returns [..., O]."""
        if self.stored is not None and few.multiplies(x):
            return few.few_rows(x, self.stored, self.bias, self.out_features)
        rows = x.numel() // self.in_features
        stored = self.library == "onednn" or (self.library == "mkl" and rows >= SEVERAL)
        if not stored or torch.compiler.is_compiling():
            return F.linear(x, self.weight, self.bias)
        return self._multiply(x, rows)

    def _multiply(self, x: Tensor, rows: int) -> Tensor:
        """By the library's own matrix, which is made by the first call."""
        if self.library == "onednn":
            if self._pieces is None:
                self._pieces = cut(self.weight, ROWS["onednn"])
            return multiply(x, self._pieces, self.bias)
        if self._pieces is None:
            self._pieces = torch.ops.mkl._mkl_reorder_linear_weight(self.weight.contiguous(), ROWS["mkl"])
        product: Tensor = torch.ops.mkl._mkl_linear(x, self._pieces, self.weight, self.bias, rows)
        return product


def _library(dtype: torch.dtype) -> str | None:
    """Who stores matrices of this type; None where nobody does."""
    if dtype != torch.float32:
        return None
    if few.LIBRARY.load():
        return "native"
    if prefers_onednn():
        return "onednn"
    return "mkl" if torch.backends.mkl.is_available() and hasattr(torch.ops.mkl, "_mkl_linear") else None


@torch.no_grad()
def arrange(model: Model) -> None:
    """Store matrices as a CPU multiplies a few tokens with them, for a model that will only write."""
    if any(tensor.device.type != "cpu" for tensor in model.parameters()):
        return
    keep_memory()
    likeliest.LIBRARY.load()
    if prefers_onednn():
        remember_few()
    arranged = _arrange_scores(model)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                arranged.append(Arranged(child.weight, child.bias))
                setattr(parent, name, arranged[-1])
    stored = [layer.stored for layer in arranged if layer.stored is not None]
    for layer, room in zip((layer for layer in arranged if layer.stored is not None), huge_pages(stored), strict=True):
        layer.stored = room


def _arrange_scores(model: Model) -> list[Arranged]:
    """The way back to tokens; a table that is looked up stays row by row."""
    side = getattr(model, "decoder", None) or getattr(model, "encoder", None)
    assert isinstance(side, Side)
    found = model.head.matrix(side.embedding if model.tied else None)
    if found is None:
        return []
    scores = Arranged(*found)
    # Beside the head's own parameters, so that the model's names stay what they are.
    model.head.__dict__["forward"] = lambda x, layout, embedding: scores(x)
    return [scores]
