"""Tokenizers that break one law each."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from kit import Options, Special, Tokenizer


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"


class BrokenTokenizer(Tokenizer):
    """A token for each letter."""

    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    def train(self, texts: Iterable[str]) -> None:
        self.letters = sorted(set("".join(texts)))

    @property
    def size(self) -> int:
        return len(Special) + len(self.letters)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        ids = {letter: len(Special) + number for number, letter in enumerate(self.letters)}
        return [[ids.get(letter, int(Special.UNKNOWN)) for letter in text] for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        kept = [number for number in ids if number >= len(Special) or number == Special.UNKNOWN]
        return "".join(self.letters[n - len(Special)] if n >= len(Special) else "�" for n in kept)

    def token(self, number: int) -> str:
        return Special(number).name if number < len(Special) else self.letters[number - len(Special)]

    def save(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text(json.dumps(self.letters))

    def load(self, folder: Path) -> None:
        self.letters = json.loads((folder / "tokenizer.json").read_text())

    def fingerprint(self) -> str:
        return hashlib.sha256("".join(self.letters).encode()).hexdigest()


class LosesSpaces(BrokenTokenizer):
    breaks = ("tokenizer.round_trip",)

    def decode(self, ids: Iterable[int]) -> str:
        return super().decode(ids).replace(" ", "")


class ShufflesItsLetters(BrokenTokenizer):
    breaks = ("tokenizer.deterministic_training",)

    def train(self, texts: Iterable[str]) -> None:
        super().train(texts)
        random.SystemRandom().shuffle(self.letters)


class SavesHalf(BrokenTokenizer):
    breaks = ("tokenizer.save_and_load",)

    def save(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text(json.dumps(self.letters[::2]))
