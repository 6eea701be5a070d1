"""Guides cross attention along an alignment (Chen et al. 2016, Guided Alignment Training; Tachibana et al. 2018).

Shapes: B texts, H heads, Q queries, K keys, N real queries.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from kit import KitError, Regularizer, RegularizerOptions, Scope, Site

FLOOR = 1e-9


class GuidedOptions(RegularizerOptions):
    """Options of `guided`."""

    use: Literal["guided"] = "guided"
    toward: Literal["diagonal", "aligned"] = "diagonal"
    """What is wanted: that both texts go in step; or, for each target token, the place of a source token that the batch
    brings as the fact `aligned` (-1 for none)."""
    width: PositiveFloat = 0.2
    """For the diagonal: how far, as a share of the text, attention may stray."""
    heads: PositiveInt = 1
    """How many heads of each attention are guided, from the first; the others stay free."""
    where: list[Literal["cross"]] = Field(default=["cross"], min_length=1)  # type: ignore[assignment]
    """Cross attention only."""


class GuidedRegularizer(Regularizer):
    """The divergence of the wanted alignment from the mean of the guided heads, in nats, in the mean over tokens."""

    options_type = GuidedOptions
    options: GuidedOptions

    def weights(self, site: Site, weights_BHQK: Tensor, scope: Scope) -> None:
        """Add this layer's part."""
        wanted_BQK = self._diagonal(scope) if self.options.toward == "diagonal" else self._aligned(scope)
        real_BQ = (self.seen(scope) > 0) & (wanted_BQK.sum(-1) > 0)
        found_NK = weights_BHQK[:, : self.options.heads].mean(1)[real_BQ].float()
        wanted_NK = wanted_BQK[real_BQ]
        if len(found_NK):
            apart_N = (torch.special.xlogy(wanted_NK, wanted_NK) - wanted_NK * found_NK.clamp(min=FLOOR).log()).sum(-1)
            self.add_loss("guided", self.options.strength * apart_N.mean() / len(self.shaped))

    def _diagonal(self, scope: Scope) -> Tensor:
        """[B, Q, K]: a bell around the same share of both texts."""
        queries, keys = (
            (layout.order.float() + 0.5) / torch.as_tensor(layout.count, device=layout.device)
            for layout in (scope.queries, scope.keys)
        )
        apart_BQK = (keys[:, None, :] - queries[:, :, None]) / self.options.width
        bell_BQK = (-0.5 * apart_BQK.square()).exp().expand(scope.queries.rows, -1, -1)
        if scope.keys.valid is not None:
            bell_BQK = bell_BQK * scope.keys.valid[:, None]
        return bell_BQK / bell_BQK.sum(-1, keepdim=True).clamp(min=FLOOR)

    def _aligned(self, scope: Scope) -> Tensor:
        """[B, Q, K]: one key for each query, or none."""
        place_BQ = scope.queries.facts.get("aligned")
        if place_BQ is None:
            raise KitError(
                "guided: {toward: aligned} needs the fact `aligned` of every target token, and there is none"
            )
        keys_K = torch.arange(scope.keys.length, device=place_BQ.device)
        return (place_BQ[:, :, None] == keys_K).float()
