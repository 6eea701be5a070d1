"""The copy task: the target is the source, the simplest test of attention to positions."""

from __future__ import annotations

from typing import Literal

from kit_data.sequences import SequenceData, SequenceOptions


class CopyOptions(SequenceOptions):
    """Options of `copy`."""

    use: Literal["copy"] = "copy"


class CopyData(SequenceData):
    """The copy task: the target is the source, the simplest test of attention to positions."""

    options_type = CopyOptions

    def target(self, symbols: list[int]) -> list[int]:
        """The same symbols."""
        return list(symbols)
