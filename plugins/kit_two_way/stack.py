"""One LSTM from the left and one from the right, each stopping short of the token itself (ELMo, Peters et al. 2018).

What stands at a token is made of the tokens before it and of those after it, not of itself, so that it can be asked for
the token. The two directions share nothing but the embedding, and are added at the end; ELMo keeps two losses instead.
Shapes: B rows, L length, D width, H hidden width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import Dims, Layout, Memory, NoState, Options, Problem, Site, Stack, State, Watcher, drop


class TwoWayOptions(Options):
    """Two recurrences that meet at a token without having read it."""

    use: Literal["two_way"] = "two_way"
    depth: PositiveInt = Field(default=1, le=100)
    """Layers in each direction."""
    hidden: PositiveInt | None = None
    """Width of what a layer remembers; left out, the model's width."""


class TwoWayStack(Stack):
    """A bidirectional language model of LSTMs, for an encoder."""

    options_type = TwoWayOptions
    options: TwoWayOptions
    reads_memory = False

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        hidden = options.hidden or dims.width
        dropout = dims.dropout if options.depth > 1 else 0.0
        self.forth, self.back = (
            nn.LSTM(dims.width, hidden, options.depth, batch_first=True, dropout=dropout) for _ in range(2)
        )
        self.from_left, self.from_right = nn.Linear(hidden, dims.width), nn.Linear(hidden, dims.width)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """It reads both ways, which nothing that writes can do."""
        if site.causal:
            yield site.problem(
                f"the {site.stack} writes from left to right, and two_way reads what is not yet written",
                "use",
                hint="take lstm here, or make the model an encoder",
            )

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        memory: Memory | None = None,
        state: State | None = None,
        watcher: Watcher | None = None,
    ) -> Tensor:
        """x: [..., D] as `layout` carries it."""
        x_BLD = layout.pad(x)
        first_BL, lengths_B1 = _real_first(layout)
        read_BLD = _taken(x_BLD, first_BL)
        backward_BL = _turned(lengths_B1, layout.length)
        left_BLH = _shifted(self.forth(read_BLD)[0])
        right_BLH = _taken(_shifted(self.back(_taken(read_BLD, backward_BL))[0]), backward_BL)
        joined_BLD = self.from_left(left_BLH) + self.from_right(right_BLH)
        given_BLD = joined_BLD if first_BL is None else _taken(joined_BLD, first_BL.argsort(1))
        return layout.unpad(drop(given_BLD, self.dims.dropout, self.training))

    def start(self) -> State:
        """Nothing: it reads whole texts."""
        return NoState()


def _real_first(layout: Layout) -> tuple[Tensor | None, Tensor]:
    """[B, L]: the places of a row's tokens, the real ones first; and how many of them are real, [B, 1]."""
    if layout.valid is None:
        return None, torch.full((layout.rows, 1), layout.length, device=layout.device)
    return (~layout.valid).to(torch.uint8).argsort(dim=1, stable=True), layout.valid.sum(1, keepdim=True)


def _turned(lengths_B1: Tensor, length: int) -> Tensor:
    """[B, L]: places that read each row's real tokens backward, and leave the rest alone; its own inverse."""
    places_L = torch.arange(length, device=lengths_B1.device)
    return torch.where(places_L < lengths_B1, lengths_B1 - 1 - places_L, places_L)


def _taken(x_BLD: Tensor, places_BL: Tensor | None) -> Tensor:
    if places_BL is None:
        return x_BLD
    return x_BLD.gather(1, places_BL[:, :, None].expand(-1, -1, x_BLD.shape[-1]))


def _shifted(x_BLH: Tensor) -> Tensor:
    """What stood at the token before; nothing at the first."""
    return torch.cat([torch.zeros_like(x_BLH[:, :1]), x_BLH[:, :-1]], 1)
