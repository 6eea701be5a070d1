"""Recurrent stacks, one a file: texts read token by token, as translators did before 2017."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts, imported when they are asked for."""
    from kit_recurrent.gru import GruStack
    from kit_recurrent.lstm import LstmStack
    from kit_recurrent.rnn import RnnStack

    return [GruStack, LstmStack, RnnStack]
