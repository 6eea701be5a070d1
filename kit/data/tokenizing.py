"""The tokenizers of a run: one for both sides, or one for the source and one for the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.contracts.data import Data, Example
from kit.contracts.tokenizer import Tokenizer
from kit.data.fingerprints import digest_of


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizer of each side; the same object twice where they share one."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def one(cls, tokenizer: Tokenizer) -> Tokenizers:
        """One tokenizer for everything."""
        return cls(tokenizer, tokenizer)

    @property
    def shared(self) -> bool:
        """Whether both sides have the same ids."""
        return self.source is self.target

    def train(self, data: Data) -> None:
        """Learn from the training split; held-out text is never seen."""
        examples = data.open("train")
        if self.shared:
            self.source.train(_texts(examples, source=True, target=data.task == "pairs"))
            return
        self.source.train(_texts(examples, source=True, target=False))
        self.target.train(_texts(examples, source=False, target=True))

    def save(self, folder: Path) -> None:
        """Into the folder where one is shared, else into its subfolders `source` and `target`."""
        for part, place in self._places(folder):
            part.save(place)

    def load(self, folder: Path) -> None:
        """What `save` wrote."""
        for part, place in self._places(folder):
            part.load(place)

    def fingerprint(self) -> str:
        """SHA-256 of what decides the ids of both sides."""
        return digest_of([self.source.fingerprint(), self.target.fingerprint()])

    def symbols(self) -> dict[str, tuple[str, ...]]:
        """How every token is written, by the side of the model that reads it."""
        sides = {"encoder": self.source, "decoder": self.target}
        return {side: tuple(map(tokenizer.token, range(tokenizer.size))) for side, tokenizer in sides.items()}

    def _places(self, folder: Path) -> list[tuple[Tokenizer, Path]]:
        if self.shared:
            return [(self.source, folder)]
        return [(self.source, folder / "source"), (self.target, folder / "target")]


def _texts(examples: Sequence[Example], *, source: bool, target: bool) -> Iterator[str]:
    for example in examples:
        if source:
            yield example.source
        if target and example.target is not None:
            yield example.target
