"""Random numbers: the random head order that every pruning order has to beat (Budhraja et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from kit import ExampleIds, HeadProbe, Inspector, Options


class RandomOptions(Options):
    """Options of `random`."""

    use: Literal["random"] = "random"
    seed: int = 0
    """The seed of the numbers."""


class RandomProbe(HeadProbe):
    """A uniform random number from 0 to 1 for each head."""

    options_type = RandomOptions
    options: RandomOptions
    orders = {"random": "random"}  # noqa: RUF012
    costly = True
    has_uniform_baseline = False

    @property
    def quantities(self) -> Mapping[str, str]:
        """One measure."""
        return {"random": "a random number: the baseline order of heads"}

    def gather(self, inspector: Inspector, rows: Sequence[ExampleIds]) -> Iterator[Mapping[str, Tensor]]:
        """One sequence is enough to list the heads."""
        generator = torch.Generator().manual_seed(self.options.seed)
        for record in inspector.run(rows[:1]):
            yield {it.site: torch.rand(it.heads, 1, generator=generator, dtype=torch.float64) for it in record.maps}
