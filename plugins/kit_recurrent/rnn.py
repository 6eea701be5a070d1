"""Elman RNN stack: Finding Structure in Time (Elman 1990)."""

from __future__ import annotations

from typing import Literal

from torch import nn

from kit_recurrent.recurrent import RecurrentOptions, RecurrentStack


class RnnOptions(RecurrentOptions):
    """Elman recurrent network."""

    use: Literal["rnn"] = "rnn"
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden state."""


class RnnStack(RecurrentStack):
    """Cells h = activation(W x + U h)."""

    options_type = RnnOptions
    options: RnnOptions

    def new_cells(self, reads: int, dropout: float) -> nn.RNNBase:
        """torch.nn.RNN."""
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
