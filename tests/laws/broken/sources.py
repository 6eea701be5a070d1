"""Data that breaks one law each time."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Literal

from kit import Data, Example, Options, Split, Task


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"


class BrokenData(Data):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        return "pairs"

    def splits(self) -> tuple[Split, ...]:
        return ("train",)

    def open(self, split: Split) -> Sequence[Example]:
        return [Example(str(number), str(number)) for number in range(9)]

    def fingerprint(self) -> str:
        return hashlib.sha256(b"broken").hexdigest()


class PairsWithoutTargets(BrokenData):
    breaks = ("data.examples",)

    def open(self, split: Split) -> Sequence[Example]:
        return [Example(str(number)) for number in range(9)]


class DrawsAnew(BrokenData):
    breaks = ("data.determinism",)

    def open(self, split: Split) -> Sequence[Example]:
        draw = random.SystemRandom().random
        return [Example(str(draw()), "x") for _ in range(9)]


class FingerprintsItsName(BrokenData):
    breaks = ("data.fingerprint",)

    def fingerprint(self) -> str:
        return "broken"
