"""Long short-term memory (Hochreiter and Schmidhuber 1997), with a forget gate (Gers et al. 2000)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from kit_recurrent.options import RecurrentOptions
from kit_recurrent.recurrent import RecurrentStack


class LstmOptions(RecurrentOptions):
    """A cell carries what is remembered; three gates say what it forgets, takes in and shows."""

    use: Literal["lstm"] = "lstm"
    forget_bias: float = 1.0
    """What the forget gate's bias begins as; 1 lets a cell remember from the start (Jozefowicz et al. 2015)."""


class LstmStack(RecurrentStack):
    """Cells with an input, a forget and an output gate."""

    options_type = LstmOptions
    options: LstmOptions
    gates = 4
    remembers = ("hidden", "cell")

    def new_cells(self, reads: int, dropout: float) -> nn.RNNBase:
        """torch's own."""
        return nn.LSTM(
            reads, self.hidden, self.options.depth, batch_first=True, dropout=dropout, bidirectional=self.both
        )

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """As all, with the forget gate open."""
        super().reset_parameters()
        for name, parameter in self.cells.named_parameters():
            if name.startswith("bias_ih"):
                parameter[self.hidden : 2 * self.hidden] = self.options.forget_bias
