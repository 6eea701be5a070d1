"""The simple recurrent network: Finding Structure in Time (Elman 1990)."""

from __future__ import annotations

from typing import Literal

from torch import nn

from kit_recurrent.options import RecurrentOptions
from kit_recurrent.recurrent import RecurrentStack


class RnnOptions(RecurrentOptions):
    """What is remembered is an activation of the token and of what was remembered before."""

    use: Literal["rnn"] = "rnn"
    activation: Literal["tanh", "relu"] = "tanh"
    """The activation."""


class RnnStack(RecurrentStack):
    """Elman's cells."""

    options_type = RnnOptions
    options: RnnOptions

    def new_cells(self, reads: int, dropout: float) -> nn.RNNBase:
        """torch's own."""
        options = self.options
        return nn.RNN(
            reads,
            self.hidden,
            options.depth,
            nonlinearity=options.activation,
            batch_first=True,
            dropout=dropout,
            bidirectional=self.both,
        )
