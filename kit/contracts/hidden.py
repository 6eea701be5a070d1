"""A feed-forward layer with one hidden layer: up, an activation, down."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from kit.component import Dims, Options, Site
from kit.contracts.division import Division, in_order
from kit.contracts.feedforward import Feedforward
from kit.dropout import Dropout


class HiddenOptions(Options):
    """What feed-forward layers with one hidden layer have in common."""

    factor: PositiveFloat = 4.0
    """How much wider the hidden layer is than the model."""
    hidden: PositiveInt | None = None
    """The hidden width itself, in place of the factor."""
    bias: bool = True
    """Whether the two projections have a bias."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """The share of hidden numbers dropped in training."""

    def hidden_width(self, width: int) -> int:
        """How wide the hidden layer is."""
        return self.hidden or max(1, round(width * self.factor))


class HiddenFeedforward(Feedforward):
    """Override `activate`."""

    options: HiddenOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        hidden = options.hidden_width(dims.width)
        self.up = nn.Linear(dims.width, hidden, options.bias)
        self.down = nn.Linear(hidden, dims.width, options.bias)
        self.dropout = Dropout(options.dropout)
        for linear in (self.up, self.down):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    @abstractmethod
    def activate(self, hidden: Tensor) -> Tensor:
        """The activation of the hidden layer, number by number; override `divided` where they need each other."""

    def divided(self, share: int, of: int) -> Division | None:
        """Some of the hidden numbers; None where they cannot be shared out evenly."""
        hidden = self.down.in_features
        if hidden % of:
            return None
        own = in_order(share, of, hidden)
        options = self.options.model_copy(update={"hidden": len(own)})
        cuts = {"up.weight": (0, own), "up.bias": (0, own), "down.weight": (1, own)}
        return Division(cuts, "down", lambda: type(self)(options, self.dims, self.site))

    def transform(self, x: Tensor) -> Tensor:
        """Up, activate, down."""
        out: Tensor = self.down(self.dropout(self.activate(self.up(x))))
        return out
