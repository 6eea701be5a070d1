"""Writing a sequence again: the plainest test of attention to positions."""

from __future__ import annotations

from typing import Literal

from kit_data.sequences import SequenceData, SequenceOptions


class CopyOptions(SequenceOptions):
    """Options of `copy`."""

    use: Literal["copy"] = "copy"


class CopyData(SequenceData):
    """Writing a sequence again: the plainest test of attention to positions."""

    options_type = CopyOptions

    def answer(self, symbols: list[int]) -> list[int]:
        """The same symbols."""
        return list(symbols)
