"""Sentences about banks, of rivers and of money, made from templates: one word with two senses, and both are known."""

from __future__ import annotations

from typing import Literal

import numpy as np

from kit import Example, Split, Task
from kit_data.generated import GeneratedData, GeneratedOptions

SENSES: dict[str, dict[str, tuple[str, ...]]] = {
    "river": {
        "who": ("fisherman", "heron", "otter", "child", "hiker", "farmer", "painter", "boat"),
        "did": ("rested on", "walked along", "slept on", "climbed", "waited by", "followed", "stood on"),
        "which": ("muddy", "grassy", "steep", "green", "far", "wet", "stony"),
        "where": ("of the river", "by the water", "near the bridge", "under the willows", "of the stream"),
        "when": ("at dawn", "in the rain", "after the flood", "in summer", "before the storm"),
    },
    "money": {
        "who": ("customer", "lawyer", "merchant", "widow", "clerk", "student", "company", "child"),
        "did": ("borrowed from", "paid", "sued", "trusted", "waited by", "called", "robbed"),
        "which": ("central", "private", "old", "foreign", "far", "rich", "local"),
        "where": ("in the city", "near the bridge", "for a loan", "with the vault", "of the town"),
        "when": ("on monday", "in the rain", "after the crisis", "in summer", "before noon"),
    },
}


class BankOptions(GeneratedOptions):
    """Options of `bank`."""

    use: Literal["bank"] = "bank"


class BankData(GeneratedData):
    """`the heron slept on the muddy bank of the river at dawn`; the label of an example is the sense of its bank."""

    options_type = BankOptions
    options: BankOptions

    @property
    def task(self) -> Task:
        """Text."""
        return "text"

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Some words are said of both."""
        sense = ("river", "money")[int(generator.integers(2))]
        parts = SENSES[sense]
        who, did, which, where, when = (parts[slot][int(generator.integers(len(parts[slot])))] for slot in parts)
        return Example(f"the {who} {did} the {which} bank {where} {when}", label=sense)
