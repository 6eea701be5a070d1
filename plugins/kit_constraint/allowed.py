"""Closed sets of outputs, held as a trie: Autoregressive Entity Retrieval (De Cao et al. 2021), section 3.3.

Shapes: R rows, N allowed pairs of a row and a token, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, TypeAlias

import torch
from pydantic import Field
from torch import Tensor

from kit import History, Options, Phrase
from kit_constraint.phrases import PhraseConstraint

Trie: TypeAlias = dict[int | None, "Trie"]
"""Maps each token that may follow to the trie after it; None if a sequence may end."""


class AllowedOptions(Options):
    """A closed set of texts."""

    use: Literal["allowed"] = "allowed"
    phrases: list[Phrase] = Field(min_length=1)
    """Texts or lists of token ids; one may be the beginning of another."""


class AllowedConstraint(PhraseConstraint):
    """Forbids tokens that lead to none of the phrases; the end token is allowed after a complete one."""

    options_type = AllowedOptions
    options: AllowedOptions
    examples = ({"phrases": [[6, 7, 6], [9], [9, 9, 9, 9, 9, 9], "ab"]},)

    def named(self) -> Sequence[Phrase]:
        """Returns the allowed phrases."""
        return self.options.phrases

    @cached_property
    def trie(self) -> Trie:
        """The phrases as a trie."""
        trie: Trie = {}
        for phrase in self.phrases:
            node = trie
            for token in phrase:
                node = node.setdefault(token, {})
            node[None] = {}
        return trie

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """Walks the trie along the tokens of each row."""
        allowed = [self._following(tokens, history.end) for tokens in history.tokens.tolist()]
        rows = [row for row, tokens in enumerate(allowed) for _ in tokens]
        row_N = torch.tensor(rows, dtype=torch.long, device=scores_RV.device)
        token_N = torch.tensor([token for each in allowed for token in each], dtype=torch.long, device=scores_RV.device)
        allowed_RV = torch.zeros_like(scores_RV, dtype=torch.bool)
        allowed_RV[row_N, token_N] = True
        return scores_RV.masked_fill(~allowed_RV, float("-inf"))

    def _following(self, tokens: list[int], end: int) -> list[int]:
        node: Trie | None = self.trie
        for token in tokens:
            node = None if node is None else node.get(token)
        return [] if node is None else [end if token is None else token for token in node]
