"""Head importance: the expected absolute gradient of the loss by a head's gate (Michel et al. 2019, section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from kit import ExampleIds, HeadProbe, Inspector, Options, has_loss, head_gradients


class ImportanceOptions(Options):
    """Options of `importance`: there are none."""

    use: Literal["importance"] = "importance"


class ImportanceProbe(HeadProbe):
    """The absolute value is taken by sequence, so that gradients of both signs do not cancel."""

    options_type = ImportanceOptions
    headline = ("importance",)
    orders = {"importance": "importance", "gradient": "gradient"}  # noqa: RUF012
    has_uniform_baseline = False

    @property
    def quantities(self) -> Mapping[str, str]:
        """The absolute gradient, and the same normalised within the layer."""
        return {
            "gradient": "the mean absolute gradient of the loss by the head's gate, in nats a prediction",
            "importance": "that gradient over the l2 norm of those of all heads of its layer",
        }

    def gather(self, inspector: Inspector, rows: Sequence[ExampleIds]) -> Iterator[Mapping[str, Tensor]]:
        """Batches of sequences, each sequence with its own gates."""
        if not has_loss(inspector, rows):
            return
        for start in range(0, len(rows), 16):
            chunk = rows[start : start + 16]
            found = head_gradients(inspector, chunk)
            for row in range(len(chunk)):
                yield {site: gradient[row].abs().double().cpu() for site, gradient in found.items()}

    def aggregate(self, kept_SH: Tensor) -> Tensor:
        """The mean over sequences, then normalised within the layer."""
        mean_H = kept_SH.mean(0)
        return torch.stack([mean_H, mean_H / mean_H.norm().clamp(min=1e-30)], -1)
