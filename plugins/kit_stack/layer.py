"""Transformer layer: self-attention, cross-attention and feed-forward in a residual stream, and stochastic depth."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from kit import (
    Attention,
    AttentionContext,
    BatchLayout,
    CacheList,
    CrossAttentionKVCache,
    Dims,
    Feedforward,
    KVCache,
    LayerPlan,
    NoCache,
    Residual,
)


class TransformerLayer(nn.Module):
    """Up to three sublayers and the residual connection around them."""

    def __init__(self, plan: LayerPlan, dims: Dims) -> None:
        super().__init__()
        self.attention: Attention = plan.build("attention", dims)
        self.cross_attention: Attention | None = plan.build("cross_attention", dims)
        self.feedforward: Feedforward | None = plan.build("feedforward", dims)
        self.residual: Residual = plan.build("residual", dims)
        self.residual.initialise({name: getattr(self, name) for name in plan.sublayers})

    def forward(
        self,
        x: Tensor,
        context: AttentionContext,
        memory: Tensor | None,
        across: AttentionContext | None,
        state: CacheList | None,
    ) -> Tensor:
        """x: the residual stream in the layout of `context.queries`; `across` is the context of cross-attention."""
        own, cross, feed = (None, None, None) if state is None else state.parts
        sublayers: list[Callable[[Tensor], Tensor]] = [lambda y: self.attention(y, None, context, own)]
        attend, transform = self.cross_attention, self.feedforward
        if attend is not None and across is not None:
            sublayers.append(lambda y: attend(y, memory, across, cross))
        if transform is not None:
            sublayers.append(lambda y: transform(y, context, feed))
        joined: Tensor = self.residual(x, sublayers)
        return joined

    def supports_shared_beams(self) -> bool:
        """Whether the beams of an input can share its cache."""
        own, cross, feed = self.start().parts
        # A cache of more than keys and values may not be able to evict tokens.
        shared = self.attention.capabilities.supports_shared_beams and type(own) is KVCache
        return shared and isinstance(cross, (CrossAttentionKVCache, NoCache)) and isinstance(feed, NoCache)

    def start(self) -> CacheList:
        """Empty caches of the sublayers."""
        parts = (self.attention, self.cross_attention, self.feedforward)
        return CacheList([NoCache() if part is None else part.start() for part in parts])


def stochastic_depth(before: Tensor, after: Tensor, layout: BatchLayout, p: float) -> Tensor:
    """Stochastic depth per sequence (Huang et al. 2016): the stream before a layer with probability p, else after it.

    The update of a kept layer is scaled by 1 / (1 - p), so that its expectation is that of the layer.
    """
    kept_B = (torch.rand(layout.rows, device=before.device) >= p).to(before.dtype) / (1 - p)
    if layout.index is not None:
        kept_B = kept_B.index_select(0, layout.index // layout.length)
    return before + kept_B.view(-1, *[1] * (before.dim() - 1)) * (after - before)
