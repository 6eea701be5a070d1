"""Recurrent stacks (RNN, GRU, LSTM), with attention in decoders; one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts of this plugin, imported on first use."""
    from kit_recurrent.gru import GruStack
    from kit_recurrent.lstm import LstmStack
    from kit_recurrent.rnn import RnnStack

    return [GruStack, LstmStack, RnnStack]
