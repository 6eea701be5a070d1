"""How much the loss hangs on each head: the slope of a gate in front of it (Michel et al. 2019, section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from kit import HeadProbe, Ids, Inspector, Options, can_tell_loss, head_slopes


class ImportanceOptions(Options):
    """Options of `importance`: there are none."""

    use: Literal["importance"] = "importance"


class ImportanceProbe(HeadProbe):
    """The size of the slope is taken text by text: slopes of both signs must not cancel out."""

    options_type = ImportanceOptions
    headline = ("importance",)
    orders = {"importance": "importance", "slope": "slope"}  # noqa: RUF012
    has_even = False

    @property
    def quantities(self) -> Mapping[str, str]:
        """As it is, and compared within the layer."""
        return {
            "slope": "how much the loss changes with the gate of a head, in nats a prediction: the size, text by text",
            "importance": "the slope of the loss by the head's gate, relative to the other heads of its layer",
        }

    def gather(self, inspector: Inspector, rows: Sequence[Ids]) -> Iterator[Mapping[str, Tensor]]:
        """A few texts at a time, each with gates of its own."""
        if not can_tell_loss(inspector, rows):
            return
        for start in range(0, len(rows), 16):
            chunk = rows[start : start + 16]
            found = head_slopes(inspector, chunk)
            for row in range(len(chunk)):
                yield {site: slope[row].abs().double().cpu() for site, slope in found.items()}

    def conclude(self, kept_SH: Tensor) -> Tensor:
        """The mean over texts, then relative to the other heads."""
        mean_H = kept_SH.mean(0)
        return torch.stack([mean_H, mean_H / mean_H.norm().clamp(min=1e-30)], -1)
