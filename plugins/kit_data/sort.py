"""Writing the symbols of a sequence in order."""

from __future__ import annotations

from typing import Literal

from kit_data.sequences import SequenceData, SequenceOptions


class SortOptions(SequenceOptions):
    """Options of `sort`."""

    use: Literal["sort"] = "sort"


class SortData(SequenceData):
    """Writing the symbols of a sequence in order."""

    options_type = SortOptions

    def answer(self, symbols: list[int]) -> list[int]:
        """The symbols from the smallest to the largest."""
        return sorted(symbols)
