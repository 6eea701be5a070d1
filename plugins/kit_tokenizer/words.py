"""Word-level tokenizer: one token for each word, or each symbol separated by spaces, such as a phoneme or an action."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import tokenizers
from pydantic import PositiveInt
from tokenizers import models, pre_tokenizers, trainers

from kit import Special
from kit_tokenizer.fast_tokenizer import SPECIAL_TOKENS, FastTokenizer, NormalizerOptions, build_normalizer


class WordsOptions(NormalizerOptions):
    """Options of `words`."""

    use: Literal["words"] = "words"
    split: Literal["spaces", "punctuation"] = "spaces"
    """The pre-tokenizer. spaces: words are separated by white space; punctuation: marks are words of their own too."""
    vocab_size: PositiveInt = 50_000
    """The maximum vocabulary size, including special tokens; the most frequent words are kept."""
    min_frequency: PositiveInt = 1
    """How often a word must occur to get a token; others are unknown."""


class WordsTokenizer(FastTokenizer):
    """Word-level tokenizer; decoding joins words with one space."""

    options_type = WordsOptions
    options: WordsOptions
    is_baseline = True

    def train_backend(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """Counts words; ids are in order of decreasing frequency."""
        backend = tokenizers.Tokenizer(models.WordLevel({}, unk_token=SPECIAL_TOKENS[Special.UNKNOWN]))
        backend.normalizer = build_normalizer(self.options)
        spaces = self.options.split == "spaces"
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit() if spaces else pre_tokenizers.Whitespace()
        trainer = trainers.WordLevelTrainer(
            vocab_size=self.options.vocab_size,
            min_frequency=self.options.min_frequency,
            special_tokens=SPECIAL_TOKENS,
            show_progress=False,
        )
        backend.train_from_iterator(texts, trainer=trainer)
        return backend

    def _join(self, runs: list[str]) -> str:
        return " ".join(" � ".join(runs).split())
