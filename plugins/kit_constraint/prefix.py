"""Forced prefixes: every sequence begins with the given tokens.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from kit import History, Options, Phrase, only_token
from kit_constraint.phrases import PhraseConstraint


class PrefixOptions(Options):
    """The beginning of sequences; its probability counts in the score."""

    use: Literal["prefix"] = "prefix"
    tokens: Phrase | list[Phrase]
    """A text or token ids: one for all sequences, or a list with one for each prompt of the request."""


class PrefixConstraint(PhraseConstraint):
    """Forbids all tokens but the next one of the prefix; after the prefix, nothing."""

    options_type = PrefixOptions
    options: PrefixOptions
    examples = ({"tokens": [6, 7]}, {"tokens": [[6, 7, 6], "ab", []]})

    def named(self) -> Sequence[Phrase]:
        """Returns the prefixes: one, or one for each prompt."""
        tokens = self.options.tokens
        single = isinstance(tokens, str) or all(isinstance(each, int) for each in tokens)
        return [tokens] if single else tokens  # type: ignore[list-item,return-value]

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """Compares the number of tokens with the length of the prefix of each row."""
        prefixes, length = self.phrases, history.length
        wanted = [prefixes[0] if len(prefixes) == 1 else prefixes[prompt] for prompt in history.texts.tolist()]
        if all(len(prefix) <= length for prefix in wanted):
            return scores_RV
        forced = [len(prefix) > length for prefix in wanted]
        tokens = [prefix[length] if each else 0 for prefix, each in zip(wanted, forced, strict=True)]
        device = scores_RV.device
        return only_token(scores_RV, torch.tensor(forced, device=device), torch.tensor(tokens, device=device))
