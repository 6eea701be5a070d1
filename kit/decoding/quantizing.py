"""Weights in eight bits for decoding on a CPU: a quarter of the memory, and numbers that differ a little.

Every matrix of a linear layer, and the matrix that scores the vocabulary, is stored in eight bits with a scale for each
row; what it is multiplied with is brought to eight bits at every call, with one scale for all of it (dynamic
quantization: Jacob et al. 2018). Tables that are looked up stay as they are.

Shapes: I numbers in, O numbers out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from kit.errors import KitError
from kit.layout import Layout
from kit.model.families import Model
from kit.model.side import Side

NARROW = 16
"""A matrix with fewer rows or columns than this has little to gain."""


class Packed(nn.Module):
    """A linear layer in eight bits, laid out as the kernel reads it."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        super().__init__()
        wide_OI = weight_OI.detach().float()
        scale_O = (wide_OI.abs().amax(1) / 127).clamp(min=1e-30).double()
        zero_O = torch.zeros_like(scale_O, dtype=torch.long)
        with warnings.catch_warnings():
            # torch means to drop tensors of this kind one day; the release that is required here has them.
            warnings.simplefilter("ignore", UserWarning)
            small_OI = torch.quantize_per_channel(wide_OI, scale_O, zero_O, 0, torch.qint8)
        bias_O = None if bias_O is None else bias_O.detach().float()
        self.out_features, self.in_features = weight_OI.shape
        self.packed: Any = torch.ops.quantized.linear_prepack(small_OI, bias_O)

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., I]; returns [..., O]."""
        flat = x.reshape(-1, self.in_features).float()
        # Seven bits of the input: the kernels of older processors would overflow with eight.
        out: Tensor = torch.ops.quantized.linear_dynamic(flat, self.packed, True)
        return out.view(*x.shape[:-1], self.out_features).to(x.dtype)

    @property
    def weight(self) -> Tensor:
        """The matrix as it is used, for parts that look at it: [O, I]."""
        small, _ = torch.ops.quantized.linear_unpack(self.packed)
        wide: Tensor = small.dequantize()
        return wide

    @property
    def bias(self) -> Tensor | None:
        """The bias, [O]."""
        bias: Tensor | None = torch.ops.quantized.linear_unpack(self.packed)[1]
        return bias

    @property
    def bytes(self) -> int:
        """How much memory the matrix takes, with its scales."""
        return self.out_features * (self.in_features + 8)


@torch.no_grad()
def quantize(model: Model) -> None:
    """Bring a model that will only be used to eight bits, in place; it cannot be trained or saved any more."""
    if any(tensor.device.type != "cpu" for tensor in model.parameters()):
        raise KitError("weights in eight bits are for a CPU, and the model is not on one; open it with device='cpu'")
    if model.training:
        raise KitError("a model that is being trained cannot have weights in eight bits; call model.eval() first")
    _quantize_scores(model)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and min(child.weight.shape) >= NARROW:
                setattr(parent, name, Packed(child.weight, child.bias))


def size_of(model: nn.Module) -> int:
    """How many bytes the weights of a model take."""
    kept = {tensor.data_ptr(): tensor for tensor in (*model.parameters(), *model.buffers())}.values()
    packed = sum(each.bytes for each in model.modules() if isinstance(each, Packed))
    return packed + sum(tensor.numel() * tensor.element_size() for tensor in kept)


def _quantize_scores(model: Model) -> None:
    """The way back to tokens: a matrix in all but name, whichever part holds it."""
    side = getattr(model, "decoder", None) or getattr(model, "encoder", None)
    assert isinstance(side, Side)
    width, dtype = side.embedding.dims.width, next(model.parameters()).dtype
    if model.tied:
        embedding = side.embedding
        packed = _as_matrix(embedding.project, width, dtype)
        if packed is not None:
            embedding.add_module("way_back", packed)
            embedding.__dict__["project"] = packed.forward
        return
    if not model.head.per_token:
        return
    layout = Layout((1, width), torch.device("cpu"))
    packed = _as_matrix(lambda x: model.head(x[None], layout, None)[0], width, dtype)
    if packed is not None:
        for parameter in model.head.parameters():
            parameter.data = parameter.data.new_empty(0)
        model.head.add_module("scores", packed)
        model.head.__dict__["forward"] = lambda x, layout, embedding: packed(x)


def _as_matrix(function: Callable[[Tensor], Tensor], width: int, dtype: torch.dtype) -> Packed | None:
    """A function of vectors as a matrix and a bias in eight bits; None where it is none, or a narrow one."""
    bias_O = function(torch.zeros(width, width, dtype=dtype))[0]
    weight_OI = (function(torch.eye(width, dtype=dtype)) - bias_O).T
    probe = torch.randn(width, width, generator=torch.Generator().manual_seed(0)).to(dtype)
    wanted, found = function(probe), probe @ weight_OI.T + bias_O
    affine = bool(torch.allclose(wanted, found, rtol=1e-3, atol=1e-3 * float(wanted.abs().max())))
    return Packed(weight_OI, bias_O) if affine and min(weight_OI.shape) >= NARROW else None
