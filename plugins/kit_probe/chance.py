"""Numbers at random, for orders that know nothing: what every order of heads has to beat (Budhraja et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from kit import HeadProbe, Ids, Inspector, Options


class ChanceOptions(Options):
    """Options of `chance`."""

    use: Literal["chance"] = "chance"
    seed: int = 0
    """What the numbers depend on."""


class ChanceProbe(HeadProbe):
    """A number between 0 and 1 for each head, whatever the head does."""

    options_type = ChanceOptions
    options: ChanceOptions
    orders = {"random": "chance"}  # noqa: RUF012
    costly = True
    has_even = False

    @property
    def quantities(self) -> Mapping[str, str]:
        """One number."""
        return {"chance": "a random number, to order heads by without knowing anything"}

    def gather(self, inspector: Inspector, rows: Sequence[Ids]) -> Iterator[Mapping[str, Tensor]]:
        """One text is enough to see which heads there are."""
        generator = torch.Generator().manual_seed(self.options.seed)
        for record in inspector.look(rows[:1]):
            yield {it.site: torch.rand(it.heads, 1, generator=generator, dtype=torch.float64) for it in record.maps}
