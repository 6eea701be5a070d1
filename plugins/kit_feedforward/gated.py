"""What all gated feed-forward layers have in common: GLU Variants Improve Transformer (Shazeer 2020).

Shapes: D width of the model, N hidden width.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

from pydantic import PositiveInt
from torch import Tensor, nn

from kit import Dims, Division, Dropout, Feedforward, HiddenOptions, Site, in_order


class GatedOptions(HiddenOptions):
    """One half of the hidden layer decides how much of the other half passes."""

    sizing: Literal["equal", "factor"] = "equal"
    """Two thirds of factor · width, for as many parameters as without a gate (Shazeer), or all of it."""
    multiple: PositiveInt = 1
    """The hidden width is rounded up to a multiple of this; Llama takes 256."""

    def hidden_width(self, width: int) -> int:
        """The width itself where it is named; else as `sizing` says."""
        if self.hidden is not None:
            return self.hidden
        share = 2 / 3 if self.sizing == "equal" else 1.0
        hidden = max(1, round(width * self.factor * share))
        return -(-hidden // self.multiple) * self.multiple


class GatedFeedforward(Feedforward):
    """down(activate(gate(x)) · up(x)), gate and up in one matrix, in this order. Override `activate`."""

    options: GatedOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.hidden = options.hidden_width(dims.width)
        self.gate_up = nn.Linear(dims.width, 2 * self.hidden, options.bias)
        self.down = nn.Linear(self.hidden, dims.width, options.bias)
        self.dropout = Dropout(options.dropout)
        for weight in (*self.gate_up.weight.chunk(2), self.down.weight):
            nn.init.xavier_uniform_(weight)
        if options.bias:
            nn.init.zeros_(self.gate_up.bias)
            nn.init.zeros_(self.down.bias)

    @abstractmethod
    def activate(self, gate: Tensor) -> Tensor:
        """What becomes of the gate before it multiplies, number by number."""

    def transform(self, x: Tensor) -> Tensor:
        """x: [..., D]."""
        gate_N, up_N = self.gate_up(x).chunk(2, -1)
        out: Tensor = self.down(self.dropout(self.activate(gate_N) * up_N))
        return out

    def divided(self, share: int, of: int) -> Division | None:
        """Some of the hidden numbers, each with its gate; None where they cannot be shared out evenly."""
        if self.hidden % of:
            return None
        own = in_order(share, of, self.hidden)
        both = [*own, *(self.hidden + number for number in own)]
        options = self.options.model_copy(update={"hidden": len(own)})
        cuts = {"gate_up.weight": (0, both), "gate_up.bias": (0, both), "down.weight": (1, own)}
        return Division(cuts, "down", lambda: type(self)(options, self.dims, self.site))

    def value_path(self) -> list[Tensor]:
        """The gate chooses; up and down carry."""
        return [self.gate_up.weight[self.hidden :], self.down.weight]
