"""The contract of a tokenizer: text to token ids and back, learnt from the data of a run and saved with it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path

from kit.component import Component, Options


class Special(IntEnum):
    """The tokens that stand for no text; their ids are the same in every tokenizer, and text never gives them."""

    PADDING = 0
    START = 1
    END = 2
    UNKNOWN = 3
    """The one that `encode` may give: for what a tokenizer has no token for."""
    MASK = 4
    SEPARATOR = 5


class Tokenizer(Component):
    """Turns text into ids from `len(Special)` up, and back; the same training texts give the same tokenizer."""

    kind = "tokenizer"

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    def train(self, texts: Iterable[str]) -> None:
        """Learn the vocabulary; the texts are read once, as a stream."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many ids there are, the special ones counted."""

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; nothing is added at the ends."""

    def encode(self, text: str) -> list[int]:
        """The ids of one text; nothing is added at the ends."""
        return self.encode_batch([text])[0]

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids; special tokens are left out, and an unknown one reads «�»."""

    @abstractmethod
    def token(self, number: int) -> str:
        """How one id is written in a table or a drawing, such as `<end>` or `▁the`."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` into the folder."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Become the tokenizer that was saved in the folder."""

    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of all that decides which ids a text gets."""
