"""Examples that are drawn, not stored: each a function of the seed, the split and its number.

No source of one split is ever in another: SHA-256 of a source (its first eight bytes, big-endian), modulo 10, gives 0
for the test, 1 for validation and the rest for training, and drawing goes on until the split is right.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import get_args, overload

import numpy as np
from pydantic import Field, PositiveInt

from kit import Data, DataError, Example, Options, Split, Task, digest_of

VERSION = 1  # goes up when the same options give other examples
DRAWS = 10_000  # after so many there is hardly an example for the split


class GeneratedOptions(Options):
    """How many examples there are."""

    seed: int = Field(default=0, ge=0)
    """What the examples depend on, with the split and their number."""
    train: PositiveInt = 100_000
    """Training examples."""
    validation: PositiveInt = 1000
    """Examples to watch training with."""
    test: PositiveInt = 1000
    """Examples to judge the trained model with."""


class GeneratedData(Data):
    """A task with as many examples as are wanted."""

    options: GeneratedOptions

    @abstractmethod
    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """One example at random."""

    @property
    def task(self) -> Task:
        """Pairs, unless a task says otherwise."""
        return "pairs"

    def splits(self) -> tuple[Split, ...]:
        """All three."""
        return ("train", "validation", "test")

    def open(self, split: Split) -> Sequence[Example]:
        """Examples, drawn when they are asked for."""
        return Drawn(self, split)

    def prepare(self) -> None:
        """Draw one example of each split, to see that there are any."""
        for split in self.splits():
            self.open(split)[0]

    def fingerprint(self) -> str:
        """Of the options, which with the version of the task say everything."""
        return digest_of([VERSION, self.options.model_dump(mode="json")])


class Drawn(Sequence[Example]):
    """The examples of a split by number."""

    def __init__(self, data: GeneratedData, split: Split) -> None:
        self.data = data
        self.split = split

    def __len__(self) -> int:
        return int(getattr(self.data.options, self.split))

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        stream = [self.data.options.seed, get_args(Split).index(self.split), index % len(self)]
        generator = np.random.default_rng(stream)
        for _ in range(DRAWS):
            example = self.data.draw(generator, self.split)
            if _split_of(example.source) == self.split:
                return example
        raise DataError(
            f"{self.data.part_name()}: {DRAWS} draws gave no example for the {self.split} split; the task has too few",
            hint="make it larger: longer sequences or more symbols",
        )


def _split_of(source: str) -> Split:
    number = int.from_bytes(hashlib.sha256(source.encode()).digest()[:8], "big") % 10
    return "test" if number == 0 else "validation" if number == 1 else "train"
