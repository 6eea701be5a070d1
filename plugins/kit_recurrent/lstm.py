"""LSTM stack (Hochreiter and Schmidhuber 1997), with a forget gate (Gers et al. 2000)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from kit_recurrent.recurrent import RecurrentOptions, RecurrentStack


class LstmOptions(RecurrentOptions):
    """Long short-term memory."""

    use: Literal["lstm"] = "lstm"
    forget_bias: float = 1.0
    """Initial bias of the forget gate; 1 is recommended (Jozefowicz et al. 2015)."""


class LstmStack(RecurrentStack):
    """Cells with an input, a forget and an output gate."""

    options_type = LstmOptions
    options: LstmOptions
    gates = 4
    remembers = ("hidden", "cell")

    def new_cells(self, reads: int, dropout: float) -> nn.RNNBase:
        """torch.nn.LSTM."""
        return nn.LSTM(
            reads, self.hidden, self.options.depth, batch_first=True, dropout=dropout, bidirectional=self.both
        )

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """The common initialisation, with the forget gate's bias."""
        super().reset_parameters()
        for name, parameter in self.cells.named_parameters():
            if name.startswith("bias_ih"):
                parameter[self.hidden : 2 * self.hidden] = self.options.forget_bias
