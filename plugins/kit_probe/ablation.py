"""Head ablation: the rise of the loss with a head's output set to zero, and to its mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import (
    ExampleIds,
    HeadProbe,
    Inspector,
    Options,
    PatchedHeads,
    ablated,
    has_loss,
    mean_head_outputs,
    sequence_losses,
)


class AblationOptions(Options):
    """Options of `ablation`."""

    use: Literal["ablation"] = "ablation"
    sequences: PositiveInt = 64
    """The maximum number of sequences; each takes two forward passes for every head."""


class AblationProbe(HeadProbe):
    """Zero ablation moves off the training distribution; mean ablation keeps to what the head outputs on average."""

    options_type = AblationOptions
    headline = ("loss without",)
    options: AblationOptions
    orders = {"oracle": "loss without", "mean": "loss with its mean"}  # noqa: RUF012
    has_uniform_baseline = False
    costly = True

    @property
    def quantities(self) -> Mapping[str, str]:
        """Zero and mean ablation."""
        return {
            "loss without": "the rise of the loss where the head's output is zero, in nats a prediction",
            "loss with its mean": "the rise of the loss where the head's output is always its mean",
        }

    def gather(self, inspector: Inspector, rows: Sequence[ExampleIds]) -> Iterator[Mapping[str, Tensor]]:
        """The losses of all sequences head by head, then by sequence."""
        rows = rows[: self.options.sequences]
        if not rows or not has_loss(inspector, rows):
            return
        whole_S = sequence_losses(inspector, rows)
        means = mean_head_outputs(inspector, rows)
        head_counts: dict[str, int] = {}
        for site, head in means:
            head_counts[site] = max(head_counts.get(site, 0), head + 1)
        rises: dict[str, list[Tensor]] = {site: [] for site in head_counts}
        for site, count in head_counts.items():
            for head in range(count):
                zero_S = sequence_losses(inspector, rows, ablated([(site, head)], head_counts))
                mean_S = sequence_losses(inspector, rows, PatchedHeads({(site, head): means[site, head]}))
                rises[site].append(torch.stack([zero_S - whole_S, mean_S - whole_S], -1).double())
        by_site = {site: torch.stack(found, 1) for site, found in rises.items()}
        for row in range(len(rows)):
            yield {site: found_SH2[row] for site, found_SH2 in by_site.items()}
