"""Writing a sequence backwards."""

from __future__ import annotations

from typing import Literal

from kit_data.sequences import SequenceData, SequenceOptions


class ReverseOptions(SequenceOptions):
    """Options of `reverse`."""

    use: Literal["reverse"] = "reverse"


class ReverseData(SequenceData):
    """Writing a sequence backwards."""

    options_type = ReverseOptions
    yardstick = True

    def answer(self, symbols: list[int]) -> list[int]:
        """The symbols from the last to the first."""
        return symbols[::-1]
