"""Dynamic int8 quantization for decoding on a CPU: a quarter of the memory, and slightly different results.

Weights of linear layers and the output matrix of the head are stored in int8 with a scale for each output feature;
activations are quantized at every call with one scale for the tensor (Jacob et al. 2018). Embedding tables stay as they
are.

Shapes: I input features, O output features.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from kit.errors import KitError
from kit.kernels.devices import is_cpu
from kit.model.families import Model, Tower
from kit.sequence.batch_layout import BatchLayout

MIN_SIZE = 16
"""Matrices with fewer rows or columns are not quantized."""


class Int8Linear(nn.Module):
    """A linear layer with an int8 weight in the packed format of torch's kernel."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        super().__init__()
        float_OI = weight_OI.detach().float()
        scale_O = (float_OI.abs().amax(1) / 127).clamp(min=1e-30).double()
        zero_O = torch.zeros_like(scale_O, dtype=torch.long)
        with warnings.catch_warnings():
            # Torch deprecates quantized tensors; the release that is required here has them.
            warnings.simplefilter("ignore", UserWarning)
            quantized_OI = torch.quantize_per_channel(float_OI, scale_O, zero_O, 0, torch.qint8)
        bias_O = None if bias_O is None else bias_O.detach().float()
        self.out_features, self.in_features = weight_OI.shape
        self.packed: Any = torch.ops.quantized.linear_prepack(quantized_OI, bias_O)

    def forward(self, x: Tensor) -> Tensor:
        """Computes x W^T + b: [..., I] to [..., O]."""
        flat = x.reshape(-1, self.in_features).float()
        # reduce_range, activations of seven bits: with eight, the kernels of older processors overflow.
        out: Tensor = torch.ops.quantized.linear_dynamic(flat, self.packed, True)
        return out.view(*x.shape[:-1], self.out_features).to(x.dtype)

    @property
    def weight(self) -> Tensor:
        """The dequantized weight, [O, I], for parts that read it."""
        quantized, _ = torch.ops.quantized.linear_unpack(self.packed)
        dense: Tensor = quantized.dequantize()
        return dense

    @property
    def bias(self) -> Tensor | None:
        """The bias, [O]."""
        bias: Tensor | None = torch.ops.quantized.linear_unpack(self.packed)[1]
        return bias

    @property
    def bytes(self) -> int:
        """The bytes of the weight with its scales and zero points."""
        return self.out_features * (self.in_features + 8)


@torch.no_grad()
def quantize(model: Model) -> None:
    """Quantizes a model for inference to int8, in place; it cannot be trained or saved any more."""
    if not all(is_cpu(tensor) for tensor in model.parameters()):
        raise KitError("weights in eight bits are for a CPU, and the model is not on one; open it with device='cpu'")
    if model.training:
        raise KitError("a model that is being trained cannot have weights in eight bits; call model.eval() first")
    _quantize_output_matrix(model)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and min(child.weight.shape) >= MIN_SIZE:
                setattr(parent, name, Int8Linear(child.weight, child.bias))


def size_of(model: nn.Module) -> int:
    """Returns the bytes of all parameters and buffers of a model."""
    kept = {tensor.data_ptr(): tensor for tensor in (*model.parameters(), *model.buffers())}.values()
    packed = sum(each.bytes for each in model.modules() if isinstance(each, Int8Linear))
    return packed + sum(tensor.numel() * tensor.element_size() for tensor in kept)


def _quantize_output_matrix(model: Model) -> None:
    """Quantizes the projection to the vocabulary, whichever part computes it."""
    tower = getattr(model, "decoder", None) or getattr(model, "encoder", None)
    assert isinstance(tower, Tower)
    width, dtype = tower.embedding.dims.width, next(model.parameters()).dtype
    if model.tied:
        embedding = tower.embedding
        packed = _as_matrix(embedding.project, width, dtype)
        if packed is not None:
            embedding.add_module("int8_project", packed)
            embedding.__dict__["project"] = packed.forward
        return
    if not model.head.per_token:
        return
    layout = BatchLayout((1, width), torch.device("cpu"))
    packed = _as_matrix(lambda x: model.head(x[None], layout, None)[0], width, dtype)
    if packed is not None:
        for parameter in model.head.parameters():
            parameter.data = parameter.data.new_empty(0)
        model.head.add_module("int8_logits", packed)
        model.head.__dict__["forward"] = lambda x, layout, embedding: packed(x)


def _as_matrix(function: Callable[[Tensor], Tensor], width: int, dtype: torch.dtype) -> Int8Linear | None:
    """Returns an affine function of vectors as a quantized layer; None if it is not affine, or too quantized."""
    bias_O = function(torch.zeros(width, width, dtype=dtype))[0]
    weight_OI = (function(torch.eye(width, dtype=dtype)) - bias_O).T
    probe = torch.randn(width, width, generator=torch.Generator().manual_seed(0)).to(dtype)
    wanted, found = function(probe), probe @ weight_OI.T + bias_O
    affine = bool(torch.allclose(wanted, found, rtol=1e-3, atol=1e-3 * float(wanted.abs().max())))
    return Int8Linear(weight_OI, bias_O) if affine and min(weight_OI.shape) >= MIN_SIZE else None
