"""Template sentences with the ambiguous word `bank`, labelled with its sense: river or money."""

from __future__ import annotations

from typing import Literal

import numpy as np

from kit import Example, Split, Task
from kit_data.generated import GeneratedData, GeneratedOptions

SENSES: dict[str, dict[str, tuple[str, ...]]] = {
    "river": {
        "subject": ("fisherman", "heron", "otter", "child", "hiker", "farmer", "painter", "boat"),
        "verb": ("rested on", "walked along", "slept on", "climbed", "waited by", "followed", "stood on"),
        "adjective": ("muddy", "grassy", "steep", "green", "far", "wet", "stony"),
        "place": ("of the river", "by the water", "near the bridge", "under the willows", "of the stream"),
        "time": ("at dawn", "in the rain", "after the flood", "in summer", "before the storm"),
    },
    "money": {
        "subject": ("customer", "lawyer", "merchant", "widow", "clerk", "student", "company", "child"),
        "verb": ("borrowed from", "paid", "sued", "trusted", "waited by", "called", "robbed"),
        "adjective": ("central", "private", "old", "foreign", "far", "rich", "local"),
        "place": ("in the city", "near the bridge", "for a loan", "with the vault", "of the town"),
        "time": ("on monday", "in the rain", "after the crisis", "in summer", "before noon"),
    },
}


class BankOptions(GeneratedOptions):
    """Options of `bank`."""

    use: Literal["bank"] = "bank"


class BankData(GeneratedData):
    """Sentences such as `the heron slept on the muddy bank of the river at dawn`; the label is the sense of `bank`."""

    options_type = BankOptions
    options: BankOptions

    @property
    def task(self) -> Task:
        """The task: language modeling."""
        return "text"

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Draws a sense and a sentence; some words occur with both senses."""
        sense = ("river", "money")[int(generator.integers(2))]
        slots = SENSES[sense].values()
        subject, verb, adjective, place, time = (words[int(generator.integers(len(words)))] for words in slots)
        return Example(f"the {subject} {verb} the {adjective} bank {place} {time}", label=sense)
