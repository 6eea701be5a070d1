"""Lays weight matrices out in memory as decoding reads them; numbers and shapes stay the same."""

from __future__ import annotations

from torch import nn

from kit.model.families import Model
from kit.model.side import Side


def arrange(model: Model) -> None:
    """Store matrices column by column, for a model that will only write.

    A CPU multiplies the few tokens of a decoding step faster with a matrix that lies this way: a third less time for 5
    to 32 rows, nothing for one. Looking vectors up in such a table takes longer, but far less than is gained.
    """
    matrices = [module.weight for module in model.modules() if isinstance(module, nn.Linear)]
    matrices += list(model.head.parameters())
    decoder = getattr(model, "decoder", None)
    if model.tied and isinstance(decoder, Side):
        matrices += list(decoder.embedding.parameters())
    for matrix in matrices:
        if matrix.ndim == 2 and matrix.device.type == "cpu":
            matrix.data = matrix.data.t().contiguous().t()
