"""Lays weight matrices out in memory as decoding reads them; numbers and shapes stay the same.

Shapes: I numbers in, O numbers out.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit.memory import keep_memory
from kit.model.families import Model
from kit.model.side import Side

LARGE = 3 << 18
"""A matrix of at least this many numbers is cut into blocks for a few rows at a time."""
FEW = range(4, 129)
"""For so many rows."""


class Arranged(nn.Module):
    """A linear layer that only runs forward, on a CPU: stored column by column, and in blocks where that is quicker.

    Column by column a third less time goes by for 5 to 32 rows and nothing is lost for one. A large matrix read by few
    rows does better still in blocks, which it is cut into when the first such rows come.
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight_OI.shape
        self.weight = nn.Parameter(weight_OI.detach().t().contiguous().t(), requires_grad=False)
        self.bias = None if bias_O is None else nn.Parameter(bias_O.detach(), requires_grad=False)
        blocks = torch.backends.mkldnn.is_available() and weight_OI.dtype == torch.float32
        self.large = blocks and weight_OI.numel() >= LARGE
        self._blocks: Any = None

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., I]; returns [..., O]."""
        if self.large and not torch.compiler.is_compiling() and x.numel() // self.in_features in FEW:
            if self._blocks is None:
                self._blocks = torch.ops.mkldnn._reorder_linear_weight(self.weight.contiguous(), FEW[-1])
            blocked: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._blocks, self.bias, "none", [], "")
            return blocked
        return F.linear(x, self.weight, self.bias)


@torch.no_grad()
def arrange(model: Model) -> None:
    """Store matrices as a CPU multiplies a few tokens with them, for a model that will only write."""
    if any(tensor.device.type != "cpu" for tensor in model.parameters()):
        return
    keep_memory()
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
    if not model.tied:
        found[0].data = scores.weight.data
    # Beside the head's own parameters, so that the model's names stay what they are.
    model.head.__dict__["forward"] = lambda x, layout, embedding: scores(x)
