"""What the loss is without a head: with nothing in its place, and with what it gives in the mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import FixedHeads, HeadProbe, Ids, Inspector, Options, can_tell_loss, head_means, silenced, text_losses


class AblationOptions(Options):
    """Options of `ablation`."""

    use: Literal["ablation"] = "ablation"
    texts: PositiveInt = 64
    """The most texts it is measured on: all are read twice for every head."""


class AblationProbe(HeadProbe):
    """Nothing is what a model never saw a head give; its mean is what it would know without looking at the text."""

    options_type = AblationOptions
    headline = ("loss without",)
    options: AblationOptions
    orders = {"oracle": "loss without", "mean": "loss with its mean"}  # noqa: RUF012
    has_even = False
    costly = True

    @property
    def quantities(self) -> Mapping[str, str]:
        """Two numbers."""
        return {
            "loss without": "by how much the loss rises where the head gives nothing, in nats a prediction",
            "loss with its mean": "by how much the loss rises where the head always gives its mean",
        }

    def gather(self, inspector: Inspector, rows: Sequence[Ids]) -> Iterator[Mapping[str, Tensor]]:
        """Head by head over all texts, then text by text."""
        rows = rows[: self.options.texts]
        if not rows or not can_tell_loss(inspector, rows):
            return
        whole_S = text_losses(inspector, rows)
        means = head_means(inspector, rows)
        counts: dict[str, int] = {}
        for site, head in means:
            counts[site] = max(counts.get(site, 0), head + 1)
        rises: dict[str, list[Tensor]] = {site: [] for site in counts}
        for site, count in counts.items():
            for head in range(count):
                nothing_S = text_losses(inspector, rows, silenced([(site, head)], counts))
                mean_S = text_losses(inspector, rows, FixedHeads({(site, head): means[site, head]}))
                rises[site].append(torch.stack([nothing_S - whole_S, mean_S - whole_S], -1).double())
        by_site = {site: torch.stack(found, 1) for site, found in rises.items()}
        for text in range(len(rows)):
            yield {site: found_SH2[text] for site, found_SH2 in by_site.items()}
