"""A token for each word, or each symbol of a notation that is written with spaces between (phonemes, actions)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import tokenizers
from pydantic import PositiveInt
from tokenizers import models, pre_tokenizers, trainers

from kit import Special
from kit_tokenizer.library import SPECIALS, LibraryTokenizer, TextOptions, normalizer


class WordsOptions(TextOptions):
    """Options of `words`."""

    use: Literal["words"] = "words"
    split: Literal["spaces", "punctuation"] = "spaces"
    """spaces: only white space divides words; punctuation: marks are words of their own too."""
    size: PositiveInt = 50_000
    """The most tokens, the special ones counted; the most frequent words get them."""
    minimum: PositiveInt = 1
    """How often a word must occur to get a token; others are unknown."""


class WordsTokenizer(LibraryTokenizer):
    """Text comes back with one space between words."""

    options_type = WordsOptions
    options: WordsOptions
    yardstick = True

    def learn(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """Count words; ids follow their frequency."""
        inner = tokenizers.Tokenizer(models.WordLevel({}, unk_token=SPECIALS[Special.UNKNOWN]))
        inner.normalizer = normalizer(self.options)
        spaces = self.options.split == "spaces"
        inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit() if spaces else pre_tokenizers.Whitespace()
        trainer = trainers.WordLevelTrainer(
            vocab_size=self.options.size,
            min_frequency=self.options.minimum,
            special_tokens=SPECIALS,
            show_progress=False,
        )
        inner.train_from_iterator(texts, trainer=trainer)
        return inner

    def _join(self, pieces: list[str]) -> str:
        return " ".join(" � ".join(pieces).split())
