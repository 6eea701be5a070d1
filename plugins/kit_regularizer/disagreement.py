"""Lets heads differ: Multi-Head Attention with Disagreement Regularization (Li et al. 2018).

Shapes: B sequences, H heads, G key-value heads, Q queries, K keys, F width of a value, N tokens without padding.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from kit import AttentionContext, BuildContext, Regularizer, RegularizerOptions


class DisagreementOptions(RegularizerOptions):
    """Options of `disagreement`."""

    use: Literal["disagreement"] = "disagreement"
    of: Literal["output", "position", "subspace"] = "output"
    """What is to differ between heads: their outputs (the paper's best), their attention weights, or their values."""
    include_self: bool = False
    """Whether a head is compared with itself too, as the paper has it: for where heads look, that is a pressure to
    spread, and for the others a constant."""


class DisagreementRegularizer(Regularizer):
    """The mean agreement of two heads over tokens and layers: a cosine similarity, or the overlap of weights."""

    options_type = DisagreementOptions
    options: DisagreementOptions

    def weights(self, build_context: BuildContext, weights_BHQK: Tensor, context: AttentionContext) -> None:
        """The overlap of the attention weights of two heads, by query."""
        self._real = self.visible_keys(context) > 0
        if self.options.of == "position":
            weights_NHK = weights_BHQK.transpose(1, 2)[self._real]
            self._add(weights_NHK @ weights_NHK.transpose(1, 2))

    def values(self, build_context: BuildContext, v_BGKF: Tensor, context: AttentionContext) -> None:
        """The cosine similarity of the values of two heads, by key."""
        if self.options.of == "subspace":
            v_BKGF = v_BGKF.transpose(1, 2)
            padding_mask = context.keys.padding_mask
            self._add(_cosines(v_BKGF.flatten(0, 1) if padding_mask is None else v_BKGF[padding_mask]))

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        """The cosine similarity of the outputs of two heads, by query."""
        if self.options.of == "output":
            self._add(_cosines(out_BHQF.transpose(1, 2)[self._real]))
        return out_BHQF

    def _add(self, agreement_NHH: Tensor) -> None:
        tokens, heads = agreement_NHH.shape[:2]
        others = heads * (heads - 1)
        total = agreement_NHH.sum((1, 2))
        if self.options.include_self:
            others = heads * heads
        else:
            total = total - agreement_NHH.diagonal(dim1=1, dim2=2).sum(1)
        if tokens and others:
            self.add_loss("disagreement", self.options.strength * total.mean() / others / len(self.head_counts))


def _cosines(x_NHF: Tensor) -> Tensor:
    """[N, H, H]: the cosine similarity of each two heads, by token."""
    unit = F.normalize(x_NHF.to(torch.promote_types(x_NHF.dtype, torch.float32)), dim=-1)
    return unit @ unit.transpose(1, 2)
