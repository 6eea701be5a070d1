"""Stochastic depth: in training some texts skip a layer (Huang et al. 2016); those that do not take a longer step."""

from __future__ import annotations

import torch
from torch import Tensor

from kit import Layout


def skip_texts(before: Tensor, after: Tensor, layout: Layout, chance: float) -> Tensor:
    """What a layer made of the stream, or the stream as it was, chosen for each text as a whole.

    The change of a text that is not skipped is scaled by 1 / (1 - chance), so that the expected change is that of the
    layer and nothing has to be scaled when the model is used.
    """
    kept_B = (torch.rand(layout.rows, device=before.device) >= chance).to(before.dtype) / (1 - chance)
    if layout.index is not None:
        kept_B = kept_B.index_select(0, layout.index // layout.length)
    return before + kept_B.view(-1, *[1] * (before.dim() - 1)) * (after - before)
