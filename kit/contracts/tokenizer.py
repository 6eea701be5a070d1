"""The contract of a tokenizer: encodes text to token ids and decodes them; trained on the data of a run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path

from kit.plugin.component import Component, Options


class Special(IntEnum):
    """Special tokens; their ids are the same in every tokenizer, and `encode` never returns them, except UNKNOWN."""

    PADDING = 0
    START = 1
    END = 2
    UNKNOWN = 3
    """The out-of-vocabulary token, the only special token that `encode` may return."""
    MASK = 4
    SEPARATOR = 5


class Tokenizer(Component):
    """Encodes text to ids from `len(Special)` up, and decodes them; training is deterministic."""

    kind = "tokenizer"

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    def train(self, texts: Iterable[str]) -> None:
        """Train on a stream of texts, read once."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The vocabulary size, including special tokens."""

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts; no special tokens are added."""

    def encode(self, text: str) -> list[int]:
        """Encode one text; no special tokens are added."""
        return self.encode_batch([text])[0]

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids; special tokens are skipped, and UNKNOWN becomes «�»."""

    @abstractmethod
    def token(self, number: int) -> str:
        """The string of one id for tables and plots, such as `<end>` or `▁the`."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` into the folder."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Load the tokenizer that was saved in the folder."""

    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of everything that determines the ids."""
