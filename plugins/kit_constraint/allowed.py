"""Every text is one of a given set, held as a trie: Autoregressive Entity Retrieval (De Cao et al. 2021), section 3.3.

Shapes: R rows, V choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import torch
from pydantic import Field
from torch import Tensor

from kit import Constraint, Encode, History, Options, Phrase
from kit_constraint.vocabulary import unknown_tokens

Trie: TypeAlias = dict[int | None, "Trie"]
"""The tokens that may follow, each with what may follow it; None where a text may end."""


class AllowedOptions(Options):
    """A closed set of texts."""

    use: Literal["allowed"] = "allowed"
    phrases: list[Phrase] = Field(min_length=1)
    """Texts, or the numbers of their tokens; one may be the beginning of another."""


class AllowedConstraint(Constraint):
    """Hides what leads to none of the texts; the end is open where one of them is complete."""

    options_type = AllowedOptions
    options: AllowedOptions
    examples = ({"phrases": [[6, 7, 6], [9], [9, 9, 9, 9, 9, 9], "ab"]},)

    def __init__(self, options: AllowedOptions) -> None:
        super().__init__(options)
        self.trie: Trie | None = None
        self.phrases: list[list[int]] = []

    def prepare(self, encode: Encode | None) -> None:
        """Texts to tokens, and those into the trie."""
        self.phrases = self.encoded(self.options.phrases, encode)
        self.trie = {}
        for phrase in self.phrases:
            node = self.trie
            for token in phrase:
                node = node.setdefault(token, {})
            node[None] = {}

    def objections(self, vocabulary: int) -> Iterator[str]:
        """Tokens that do not exist."""
        _ = self._root()
        yield from unknown_tokens(self.phrases, vocabulary)

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """By walking the trie along what each row wrote."""
        allowed = [self._following(written, history.end) for written in history.tokens.tolist()]
        rows = [row for row, tokens in enumerate(allowed) for _ in tokens]
        tokens = [token for each in allowed for token in each]
        place = torch.tensor(rows, dtype=torch.long), torch.tensor(tokens, dtype=torch.long)
        open_RV = torch.zeros_like(scores_RV, dtype=torch.bool)
        open_RV[place[0].to(scores_RV.device), place[1].to(scores_RV.device)] = True
        return scores_RV.masked_fill(~open_RV, float("-inf"))

    def _following(self, written: list[int], end: int) -> list[int]:
        node: Trie | None = self._root()
        for token in written:
            node = None if node is None else node.get(token)
        return [] if node is None else [end if token is None else token for token in node]

    def _root(self) -> Trie:
        if self.trie is None:
            self.prepare(None)
        assert self.trie is not None
        return self.trie
