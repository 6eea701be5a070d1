"""The regularizers of a model, as watchers beside whoever else watches."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from kit.component import Site
from kit.contracts.attention import Attention
from kit.contracts.regularizer import Regularizer, place_of
from kit.scope import Scope
from kit.watching import Watcher


class Shaping:
    """Says who watches a pass: nobody new where no regularizer is active, so that it then costs nothing."""

    def __init__(self, regularizers: Sequence[Regularizer], stack: str) -> None:
        self.regularizers = regularizers
        self.stack = stack

    def watching(self, watcher: Watcher | None) -> Watcher | None:
        """The regularizers that are active, and after them whoever watched anyway."""
        active = [regularizer for regularizer in self.regularizers if regularizer.active]
        for regularizer in active:
            regularizer.begin(self.stack)
        return _Several([*active, *([] if watcher is None else [watcher])]) if active else watcher


class _Several(Watcher):
    """Shows everything to several watchers; what one makes of heads is what the next one sees."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self.watchers = watchers

    def weights(self, site: Site, weights_BHQK: Tensor, scope: Scope) -> None:
        for watcher in self.watchers:
            if _concerns(watcher, site):
                watcher.weights(site, weights_BHQK, scope)

    def without_weights(self, site: Site, reason: str) -> None:
        for watcher in self.watchers:
            if _concerns(watcher, site):
                watcher.without_weights(site, reason)

    def values(self, site: Site, v_BGKF: Tensor, scope: Scope) -> None:
        for watcher in self.watchers:
            if _concerns(watcher, site):
                watcher.values(site, v_BGKF, scope)

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        for watcher in self.watchers:
            if _concerns(watcher, site):
                out_BHQF = watcher.heads(site, out_BHQF)
        return out_BHQF


def shape(model: nn.Module, regularizers: Sequence[Regularizer]) -> None:
    """Tell each regularizer which attentions of a model it shapes."""
    parts = [part for part in model.modules() if isinstance(part, Attention) and part.abilities.weights]
    for regularizer in regularizers:
        chosen = [part for part in parts if place_of(part.site) in regularizer.options.where]
        regularizer.attach({part.site.name: _count(part) for part in chosen})


def _concerns(watcher: Watcher, site: Site) -> bool:
    return not isinstance(watcher, Regularizer) or watcher.shapes(site)


def _count(part: Attention) -> int:
    return int(getattr(part, "heads", 0) or type(part).head_shape(part.options, part.dims)[0])
