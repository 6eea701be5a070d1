"""Guided attention: supervises cross-attention by an alignment (Chen et al. 2016; Tachibana et al. 2018).

Shapes: B sequences, H heads, Q queries, K keys, N queries that are no padding.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from kit import AttentionContext, BuildContext, KitError, Regularizer, RegularizerOptions

FLOOR = 1e-9


class GuidedOptions(RegularizerOptions):
    """Options of `guided`."""

    use: Literal["guided"] = "guided"
    toward: Literal["diagonal", "aligned"] = "diagonal"
    """The target alignment: the diagonal; or, for each target token, the index of a source token, which the batch has
    as the feature `aligned` (-1 for none)."""
    width: PositiveFloat = 0.2
    """For the diagonal: the standard deviation around it, as a fraction of the sequence."""
    heads: PositiveInt = 1
    """The number of guided heads of each attention, from the first; the others stay free."""
    where: list[Literal["cross"]] = Field(default=["cross"], min_length=1)  # type: ignore[assignment]
    """Cross-attention only."""


class GuidedRegularizer(Regularizer):
    """The KL divergence of the mean of the guided heads from the target alignment, in nats, averaged over tokens."""

    options_type = GuidedOptions
    options: GuidedOptions

    def weights(self, build_context: BuildContext, weights_BHQK: Tensor, context: AttentionContext) -> None:
        """Add the auxiliary loss of this layer."""
        target_BQK = self._diagonal(context) if self.options.toward == "diagonal" else self._aligned(context)
        real_BQ = (self.visible_keys(context) > 0) & (target_BQK.sum(-1) > 0)
        mean_NK = weights_BHQK[:, : self.options.heads].mean(1)[real_BQ].float()
        target_NK = target_BQK[real_BQ]
        if len(mean_NK):
            log_NK = mean_NK.clamp(min=FLOOR).log()
            divergence_N = (torch.special.xlogy(target_NK, target_NK) - target_NK * log_NK).sum(-1)
            self.add_loss("guided", self.options.strength * divergence_N.mean() / len(self.head_counts))

    def _diagonal(self, context: AttentionContext) -> Tensor:
        """[B, Q, K]: a normalized Gaussian around the same relative position of both sequences."""
        queries, keys = (
            (layout.token_index.float() + 0.5) / torch.as_tensor(layout.count, device=layout.device)
            for layout in (context.queries, context.keys)
        )
        offset_BQK = (keys[:, None, :] - queries[:, :, None]) / self.options.width
        target_BQK = (-0.5 * offset_BQK.square()).exp().expand(context.queries.rows, -1, -1)
        if context.keys.padding_mask is not None:
            target_BQK = target_BQK * context.keys.padding_mask[:, None]
        return target_BQK / target_BQK.sum(-1, keepdim=True).clamp(min=FLOOR)

    def _aligned(self, context: AttentionContext) -> Tensor:
        """[B, Q, K]: one-hot over keys, or all zero."""
        index_BQ = context.queries.features.get("aligned")
        if index_BQ is None:
            raise KitError(
                "guided: {toward: aligned} needs the feature `aligned` of every target token, and there is none"
            )
        keys_K = torch.arange(context.keys.length, device=index_BQ.device)
        return (index_BQ[:, :, None] == keys_K).float()
