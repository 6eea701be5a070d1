"""Shows the attention of a decoder that goes step by step as if it had attended to the whole text at once."""

from __future__ import annotations

import torch
from torch import Tensor

from kit import Scope, Site, Watcher


class StepWatcher(Watcher):
    """Gathers the weights of each step for another watcher; what heads give is passed on step by step."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.steps: dict[str, tuple[Site, list[Tensor]]] = {}
        self.unseen: set[str] = set()

    def weights(self, site: Site, weights_BHQK: Tensor, scope: Scope) -> None:
        """Keep them until the end."""
        self.steps.setdefault(site.name, (site, []))[1].append(weights_BHQK)

    def without_weights(self, site: Site, reason: str) -> None:
        """Pass on, once."""
        if site.name not in self.unseen:
            self.unseen.add(site.name)
            self.watcher.without_weights(site, reason)

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        """Pass on."""
        return self.watcher.heads(site, out_BHQF)

    def finish(self, scope: Scope) -> None:
        """Pass on all weights, one query a step."""
        for site, steps in self.steps.values():
            self.watcher.weights(site, torch.cat(steps, 2), scope)
