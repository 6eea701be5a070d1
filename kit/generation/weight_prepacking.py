"""Weight prepacking for decoding on a CPU: matrices in the packed format of the GEMM back end, of the same values."""

from __future__ import annotations

import torch
from torch import nn

from kit.kernels.decoding import PrepackedLinear, move_to_huge_pages, prepare_for_decoding
from kit.kernels.devices import is_cpu
from kit.model.families import Model, Tower


@torch.no_grad()
def prepack_weights(model: Model) -> None:
    """Replaces linear layers by prepacked ones, in place, for a model that is only used for decoding on a CPU."""
    if not all(is_cpu(tensor) for tensor in model.parameters()):
        return
    prepare_for_decoding()
    prepacked = _prepack_output_matrix(model)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                prepacked.append(PrepackedLinear(child.weight, child.bias))
                setattr(parent, name, prepacked[-1])
    move_to_huge_pages(prepacked)


def _prepack_output_matrix(model: Model) -> list[PrepackedLinear]:
    """Prepacks a copy of the output matrix of the head; an embedding table that is tied to it stays as it is."""
    tower = getattr(model, "decoder", None) or getattr(model, "encoder", None)
    assert isinstance(tower, Tower)
    found = model.head.matrix(tower.embedding if model.tied else None)
    if found is None:
        return []
    logits = PrepackedLinear(*found)
    # Beside the parameters of the head, so that the names in the state dict stay what they are.
    model.head.__dict__["forward"] = lambda x, layout, embedding: logits(x)
    return [logits]
