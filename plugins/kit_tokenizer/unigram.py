"""Byte-level unigram tokenizer: the most probable segmentation of each word into pieces (Kudo 2018)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import tokenizers
from pydantic import Field
from tokenizers import models

from kit import Special
from kit_tokenizer.byte_level import byte_alphabet, byte_level_tokenizer
from kit_tokenizer.fast_tokenizer import SPECIAL_TOKENS, FastTokenizer, NormalizerOptions
from kit_tokenizer.unigram_trainer import train_unigram

MAX_WORDS = 100_000  # the most frequent distinct words in training, to bound memory
MAX_WORD_LENGTH = 64  # bytes; longer words are split in training, not in encoding


class UnigramOptions(NormalizerOptions):
    """Options of `unigram`."""

    use: Literal["unigram"] = "unigram"
    vocab_size: int = Field(default=8000, ge=len(SPECIAL_TOKENS) + 256)
    """The maximum vocabulary size, including special tokens and the 256 bytes."""
    max_piece_length: int = Field(default=16, ge=1, le=64)
    """The maximum length of a piece in bytes."""


class UnigramTokenizer(FastTokenizer):
    """Byte-level unigram tokenizer; decoding restores every text exactly.

    The `tokenizers` library encodes; training is our own, because the library's trainer is not deterministic.
    """

    options_type = UnigramOptions
    options: UnigramOptions

    def train_backend(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """Counts pre-tokenized words, then trains pieces by EM."""
        splitter = byte_level_tokenizer(models.BPE(), self.options, use_regex=True)
        counts: Counter[str] = Counter()
        for text in texts:
            normalized = splitter.normalizer.normalize_str(text)
            for word, _ in splitter.pre_tokenizer.pre_tokenize_str(normalized):
                counts.update(word[i : i + MAX_WORD_LENGTH] for i in range(0, len(word), MAX_WORD_LENGTH))
        words = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_WORDS])
        size = self.options.vocab_size - len(SPECIAL_TOKENS)
        pieces = train_unigram(words, byte_alphabet(), size, self.options.max_piece_length)
        min_score = min(score for _, score in pieces)
        vocabulary = [(special, min_score - 100.0) for special in SPECIAL_TOKENS] + pieces
        model = models.Unigram(vocabulary, unk_id=int(Special.UNKNOWN))
        return byte_level_tokenizer(model, self.options, use_regex=True)
