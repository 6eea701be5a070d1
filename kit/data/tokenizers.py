"""The tokenizers of a run: one shared by source and target, or one for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.contracts.data import Data, Example
from kit.contracts.tokenizer import Tokenizer
from kit.data.cache_folder import digest_of


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizer of source and target; the same object twice if shared."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def one(cls, tokenizer: Tokenizer) -> Tokenizers:
        """One tokenizer shared by both sides."""
        return cls(tokenizer, tokenizer)

    @property
    def shared(self) -> bool:
        """Whether both sides share one tokenizer."""
        return self.source is self.target

    def train(self, data: Data) -> None:
        """Train on the training split only."""
        examples = data.open("train")
        if self.shared:
            self.source.train(_texts(examples, source=True, target=data.task == "pairs"))
            return
        self.source.train(_texts(examples, source=True, target=False))
        self.target.train(_texts(examples, source=False, target=True))

    def save(self, folder: Path) -> None:
        """Save into the folder if shared, else into its subfolders `source` and `target`."""
        for tokenizer, path in self._paths(folder):
            tokenizer.save(path)

    def load(self, folder: Path) -> None:
        """Load what `save` wrote."""
        for tokenizer, path in self._paths(folder):
            tokenizer.load(path)

    def fingerprint(self) -> str:
        """SHA-256 of everything that determines the ids of both sides."""
        return digest_of([self.source.fingerprint(), self.target.fingerprint()])

    def symbols(self) -> dict[str, tuple[str, ...]]:
        """The string of every token id, by the stack that reads it: encoder, decoder."""
        sides = {"encoder": self.source, "decoder": self.target}
        return {side: tuple(map(tokenizer.token, range(tokenizer.size))) for side, tokenizer in sides.items()}

    def _paths(self, folder: Path) -> list[tuple[Tokenizer, Path]]:
        if self.shared:
            return [(self.source, folder)]
        return [(self.source, folder / "source"), (self.target, folder / "target")]


def _texts(examples: Sequence[Example], *, source: bool, target: bool) -> Iterator[str]:
    for example in examples:
        if source:
            yield example.source
        if target and example.target is not None:
            yield example.target
