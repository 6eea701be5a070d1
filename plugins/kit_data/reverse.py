"""The reverse task: the target is the source in reverse order."""

from __future__ import annotations

from typing import Literal

from kit_data.sequences import SequenceData, SequenceOptions


class ReverseOptions(SequenceOptions):
    """Options of `reverse`."""

    use: Literal["reverse"] = "reverse"


class ReverseData(SequenceData):
    """The reverse task: the target is the source in reverse order."""

    options_type = ReverseOptions
    is_baseline = True

    def target(self, symbols: list[int]) -> list[int]:
        """The symbols in reverse order."""
        return symbols[::-1]
