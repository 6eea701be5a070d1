"""Lets heads differ: Multi-Head Attention with Disagreement Regularization (Li et al. 2018).

Shapes: B texts, H heads, G groups, Q queries, K keys, F width of a value, N real tokens.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from kit import Regularizer, RegularizerOptions, Scope, Site


class DisagreementOptions(RegularizerOptions):
    """Options of `disagreement`."""

    use: Literal["disagreement"] = "disagreement"
    of: Literal["output", "position", "subspace"] = "output"
    """What is to differ: what heads give (the paper's best), where they look, or what there is to take (values)."""
    include_self: bool = False
    """Whether a head is compared with itself too, as the paper has it: for where heads look, that is a pressure to
    spread, and for the others a constant."""


class DisagreementRegularizer(Regularizer):
    """The mean agreement of two heads, over tokens and layers: a cosine, or the overlap of weights."""

    options_type = DisagreementOptions
    options: DisagreementOptions

    def weights(self, site: Site, weights_BHQK: Tensor, scope: Scope) -> None:
        """Where heads look: the overlap of two heads' weights, query by query."""
        self._real = self.seen(scope) > 0
        if self.options.of == "position":
            weights_NHK = weights_BHQK.transpose(1, 2)[self._real]
            self._add(weights_NHK @ weights_NHK.transpose(1, 2))

    def values(self, site: Site, v_BGKF: Tensor, scope: Scope) -> None:
        """What there is to take at each key."""
        if self.options.of == "subspace":
            v_BKGF = v_BGKF.transpose(1, 2)
            valid = scope.keys.valid
            self._add(_cosines(v_BKGF.flatten(0, 1) if valid is None else v_BKGF[valid]))

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        """What heads give."""
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
            self.add_loss("disagreement", self.options.strength * total.mean() / others / len(self.shaped))


def _cosines(x_NHF: Tensor) -> Tensor:
    """[N, H, H]: of each two heads at each token."""
    unit = F.normalize(x_NHF.to(torch.promote_types(x_NHF.dtype, torch.float32)), dim=-1)
    return unit @ unit.transpose(1, 2)
