"""The sort task: the target is the sorted source."""

from __future__ import annotations

from typing import Literal

from kit_data.sequences import SequenceData, SequenceOptions


class SortOptions(SequenceOptions):
    """Options of `sort`."""

    use: Literal["sort"] = "sort"


class SortData(SequenceData):
    """The sort task: the target is the sorted source."""

    options_type = SortOptions

    def target(self, symbols: list[int]) -> list[int]:
        """The symbols in increasing order."""
        return sorted(symbols)
