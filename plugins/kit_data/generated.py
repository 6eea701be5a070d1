"""Base class of synthetic tasks: each example is a function of the seed, the split and its index.

Splits share no source: SHA-256 of a source (the first eight bytes, big-endian), modulo 10, is 0 for test, 1 for
validation, and more for training; examples are drawn until one belongs to the split (rejection sampling).
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import get_args, overload

import numpy as np
from pydantic import Field, PositiveInt

from kit import Data, DataError, Example, Options, Split, Task, digest_of

VERSION = 1  # incremented when the same options give other examples
MAX_DRAWS = 10_000  # per example; more are needed only if a split has hardly any


class GeneratedOptions(Options):
    """The seed and the sizes of the splits."""

    seed: int = Field(default=0, ge=0)
    """The random seed of the examples."""
    train: PositiveInt = 100_000
    """The number of training examples."""
    validation: PositiveInt = 1000
    """The number of validation examples."""
    test: PositiveInt = 1000
    """The number of test examples."""


class GeneratedData(Data):
    """A synthetic task; a subclass draws examples."""

    options: GeneratedOptions

    @abstractmethod
    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Draws one random example."""

    @property
    def task(self) -> Task:
        """The task: pairs, unless a subclass overrides it."""
        return "pairs"

    def splits(self) -> tuple[Split, ...]:
        """The three splits."""
        return ("train", "validation", "test")

    def open(self, split: Split) -> Sequence[Example]:
        """The examples of a split, drawn on access."""
        return GeneratedExamples(self, split)

    def prepare(self) -> None:
        """Draw one example of each split, to check that there are any."""
        for split in self.splits():
            self.open(split)[0]

    def fingerprint(self) -> str:
        """SHA-256 of the version and the options, which determine the examples."""
        return digest_of([VERSION, self.options.model_dump(mode="json")])


class GeneratedExamples(Sequence[Example]):
    """The examples of a split, drawn on access."""

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
        seeds = [self.data.options.seed, get_args(Split).index(self.split), index % len(self)]
        generator = np.random.default_rng(seeds)
        for _ in range(MAX_DRAWS):
            example = self.data.draw(generator, self.split)
            if _split_of(example.source) == self.split:
                return example
        raise DataError(
            f"{self.data.name()}: {MAX_DRAWS} draws gave no example for the {self.split} split; the task has too few",
            hint="make it larger: longer sequences or more symbols",
        )


def _split_of(source: str) -> Split:
    bucket = int.from_bytes(hashlib.sha256(source.encode()).digest()[:8], "big") % 10
    return "test" if bucket == 0 else "validation" if bucket == 1 else "train"
