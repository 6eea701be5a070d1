"""A watcher that keeps the weights of a whole batch, and cuts them into records without padding, one a text."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from kit.component import Site
from kit.inspecting.record import AttentionMap, kind_of
from kit.layout import Layout
from kit.scope import Scope
from kit.watching import Watcher


class Looking(Watcher):
    """Keeps, for each attention, its weights and what its queries could see."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[Site, Tensor, Scope]] = {}
        self.unseen: dict[str, str] = {}

    def weights(self, site: Site, weights_BHQK: Tensor, scope: Scope) -> None:
        """Keep them, detached, and out of a GPU's memory."""
        self.seen[site.name] = site, weights_BHQK.detach().cpu(), scope

    def without_weights(self, site: Site, reason: str) -> None:
        """Keep the reason."""
        self.unseen[site.name] = reason

    def maps(self, row: int) -> Iterator[AttentionMap]:
        """What one text of the batch looked like, its padding cut off."""
        for site, weights_BHQK, scope in self.seen.values():
            queries, keys = real(scope.queries, row), real(scope.keys, row)
            yield AttentionMap(
                site.name,
                kind_of(site.stack, site.role),
                site.layer,
                weights_BHQK[row][:, queries][:, :, keys].clone(),
                _allowed(scope, row)[queries][:, keys],
            )


def real(layout: Layout, row: int) -> Tensor:
    """The places of the real tokens of a row."""
    if layout.valid is None:
        return torch.arange(layout.length)
    return layout.valid[row].cpu().nonzero()[:, 0]


def _allowed(scope: Scope, row: int) -> Tensor:
    allowed = scope.allowed
    if allowed is None:
        return torch.ones(scope.queries.length, scope.keys.length, dtype=torch.bool)
    return allowed[row if allowed.shape[0] > 1 else 0, 0].cpu()
