"""GRU stack: Learning Phrase Representations using RNN Encoder-Decoder (Cho et al. 2014).

The reset gate acts after the recurrent matrix, as in cuDNN and torch; the paper has it before.
"""

from __future__ import annotations

from typing import Literal

from torch import nn

from kit_recurrent.recurrent import RecurrentOptions, RecurrentStack


class GruOptions(RecurrentOptions):
    """Gated recurrent units."""

    use: Literal["gru"] = "gru"


class GruStack(RecurrentStack):
    """Cells with a reset gate and an update gate."""

    options_type = GruOptions
    options: GruOptions
    gates = 3

    def new_cells(self, reads: int, dropout: float) -> nn.RNNBase:
        """torch.nn.GRU."""
        return nn.GRU(
            reads, self.hidden, self.options.depth, batch_first=True, dropout=dropout, bidirectional=self.both
        )
