"""Looking into a model while it runs: a watcher sees the weights of attention, and may change what heads give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from kit.component import Site
    from kit.scope import Scope


class Watcher:
    """Override what you want to see; an attention asks only while somebody watches."""

    def weights(self, site: Site, weights_BHQK: Tensor, scope: Scope) -> None:
        """The weight that each query of each head gives to each key."""

    def without_weights(self, site: Site, reason: str) -> None:
        """An attention at this site ran that has no weights to show."""

    def values(self, site: Site, v_BGKF: Tensor, scope: Scope) -> None:
        """What there is to take at each key, for each group of heads; not every attention has values to show."""

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        """What each head gives, before heads are mixed; return it, or something else in its place."""
        return out_BHQF


class Recorder(Watcher):
    """Keeps the weights of every attention by its site's name, such as `decoder.0.cross_attention`."""

    def __init__(self) -> None:
        self.by_site: dict[str, Tensor] = {}
        self.unseen: dict[str, str] = {}

    def weights(self, site: Site, weights_BHQK: Tensor, scope: Scope) -> None:
        """Keep them, detached."""
        self.by_site[site.name] = weights_BHQK.detach()

    def without_weights(self, site: Site, reason: str) -> None:
        """Keep the reason."""
        self.unseen[site.name] = reason
