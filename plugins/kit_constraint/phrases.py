"""Constraints whose options name phrases: texts or token ids, encoded once and checked against the vocabulary."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from kit import Constraint, Encode, KitError, Phrase


class PhraseConstraint(Constraint):
    """Encodes the phrases of its options before the first search."""

    allows_empty = True
    """Whether a phrase may have no token."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._phrases: list[list[int]] | None = None

    @abstractmethod
    def named(self) -> Sequence[Phrase]:
        """Returns the phrases of the options."""

    def prepare(self, encode: Encode | None) -> None:
        """Encodes the phrases with the target's tokenizer."""
        phrases = self.encoded(self.named(), encode)
        if not self.allows_empty and not all(phrases):
            raise KitError(f"the constraint {self.name()!r} names an empty phrase, which every text has; leave it out")
        self._phrases = phrases

    @property
    def phrases(self) -> list[list[int]]:
        """The token ids of each phrase; encoded without a tokenizer if `prepare` was not called."""
        if self._phrases is None:
            self.prepare(None)
        assert self._phrases is not None
        return self._phrases

    def objections(self, vocabulary: int) -> Iterator[str]:
        """Yields one sentence for each token that the vocabulary does not have."""
        for token in sorted({token for phrase in self.phrases for token in phrase if token >= vocabulary}):
            yield f"it names the token {token}, and the vocabulary ends at {vocabulary - 1}"
