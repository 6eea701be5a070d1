"""Gated recurrent units: Learning Phrase Representations using RNN Encoder-Decoder (Cho et al. 2014).

The reset gate acts after the recurrent matrix, as in cuDNN and torch; the paper has it before.
"""

from __future__ import annotations

from typing import Literal

from torch import nn

from kit_recurrent.options import RecurrentOptions
from kit_recurrent.recurrent import RecurrentStack


class GruOptions(RecurrentOptions):
    """Two gates say what to forget and what to take in."""

    use: Literal["gru"] = "gru"


class GruStack(RecurrentStack):
    """Cells with a reset and an update gate."""

    options_type = GruOptions
    options: GruOptions
    gates = 3

    def new_cells(self, reads: int, dropout: float) -> nn.RNNBase:
        """torch's own."""
        return nn.GRU(
            reads, self.hidden, self.options.depth, batch_first=True, dropout=dropout, bidirectional=self.both
        )
