"""Byte-level BPE: the most frequent pair of adjacent tokens is merged (Sennrich et al. 2016; Radford et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import tokenizers
from pydantic import Field, PositiveInt
from tokenizers import models, trainers

from kit_tokenizer.byte_level import byte_alphabet, byte_level_tokenizer
from kit_tokenizer.fast_tokenizer import SPECIAL_TOKENS, FastTokenizer, NormalizerOptions


class BpeOptions(NormalizerOptions):
    """Options of `bpe`."""

    use: Literal["bpe"] = "bpe"
    vocab_size: int = Field(default=8000, ge=len(SPECIAL_TOKENS) + 256)
    """The maximum vocabulary size, including special tokens and the 256 bytes."""
    min_frequency: PositiveInt = 2
    """How often a pair must occur to be merged."""


class BpeTokenizer(FastTokenizer):
    """Byte-level BPE; decoding restores every text exactly."""

    options_type = BpeOptions
    options: BpeOptions

    def train_backend(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """Trains merges until the vocabulary is full."""
        backend = byte_level_tokenizer(models.BPE(), self.options, use_regex=True)
        trainer = trainers.BpeTrainer(
            vocab_size=self.options.vocab_size,
            min_frequency=self.options.min_frequency,
            special_tokens=SPECIAL_TOKENS,
            initial_alphabet=byte_alphabet(),
            show_progress=False,
        )
        backend.train_from_iterator(texts, trainer=trainer)
        return backend
