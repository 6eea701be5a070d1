"""Every text begins with the given tokens.

Shapes: R rows, V choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from kit import Constraint, Encode, History, Options, Phrase, only_token
from kit_constraint.vocabulary import unknown_tokens


class PrefixOptions(Options):
    """A beginning that the search may not choose; its probability counts in the score."""

    use: Literal["prefix"] = "prefix"
    tokens: Phrase | list[Phrase]
    """A text or the numbers of its tokens: one for all texts, or a list with one for each text of the request."""


class PrefixConstraint(Constraint):
    """Hides all but the next token of the beginning; after it, everything is free."""

    options_type = PrefixOptions
    options: PrefixOptions
    examples = ({"tokens": [6, 7]}, {"tokens": [[6, 7, 6], "ab", []]})

    def __init__(self, options: PrefixOptions) -> None:
        super().__init__(options)
        self.prefixes: list[list[int]] | None = None

    def prepare(self, encode: Encode | None) -> None:
        """Texts to tokens."""
        tokens = self.options.tokens
        single = isinstance(tokens, str) or all(isinstance(each, int) for each in tokens)
        self.prefixes = self.encoded([tokens] if single else tokens, encode)  # type: ignore[list-item,arg-type]

    def objections(self, vocabulary: int) -> Iterator[str]:
        """Tokens that do not exist."""
        yield from unknown_tokens(self._prefixes(), vocabulary)

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """By how many tokens are written, and in which text."""
        prefixes, place = self._prefixes(), history.length
        wanted = [prefixes[0] if len(prefixes) == 1 else prefixes[text] for text in history.texts.tolist()]
        if all(len(prefix) <= place for prefix in wanted):
            return scores_RV
        held = [len(prefix) > place for prefix in wanted]
        tokens = [prefix[place] if hold else 0 for prefix, hold in zip(wanted, held, strict=True)]
        device = scores_RV.device
        return only_token(scores_RV, torch.tensor(held, device=device), torch.tensor(tokens, device=device))

    def _prefixes(self) -> list[list[int]]:
        if self.prefixes is None:
            self.prepare(None)
        assert self.prefixes is not None
        return self.prefixes
