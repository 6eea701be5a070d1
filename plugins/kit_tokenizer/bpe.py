"""Byte-pair encoding over bytes: the most frequent pair of pieces becomes a piece (Sennrich et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import tokenizers
from pydantic import Field, PositiveInt
from tokenizers import models, trainers

from kit_tokenizer.byte_level import byte_alphabet, over_bytes
from kit_tokenizer.library import SPECIALS, LibraryTokenizer, TextOptions


class BpeOptions(TextOptions):
    """Options of `bpe`."""

    use: Literal["bpe"] = "bpe"
    size: int = Field(default=8000, ge=len(SPECIALS) + 256)
    """The most tokens, the special ones and the 256 bytes counted."""
    minimum: PositiveInt = 2
    """How often a pair must occur to become a piece."""


class BpeTokenizer(LibraryTokenizer):
    """Any text comes back as it was."""

    options_type = BpeOptions
    options: BpeOptions

    def learn(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """Merge pairs until the vocabulary is full."""
        inner = over_bytes(models.BPE(), self.options, split=True)
        trainer = trainers.BpeTrainer(
            vocab_size=self.options.size,
            min_frequency=self.options.minimum,
            special_tokens=SPECIALS,
            initial_alphabet=byte_alphabet(),
            show_progress=False,
        )
        inner.train_from_iterator(texts, trainer=trainer)
        return inner
