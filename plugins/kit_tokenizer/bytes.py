"""Byte tokenizer: one token for each of the 256 bytes, without training (ByT5, Xue et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import tokenizers
from tokenizers import models

from kit_tokenizer.byte_level import byte_alphabet, byte_level_tokenizer
from kit_tokenizer.fast_tokenizer import SPECIAL_TOKENS, FastTokenizer, NormalizerOptions


class BytesOptions(NormalizerOptions):
    """Options of `bytes`."""

    use: Literal["bytes"] = "bytes"


class BytesTokenizer(FastTokenizer):
    """Byte tokenizer; the id of a byte is its value plus the number of special tokens. Decoding is exact."""

    options_type = BytesOptions
    options: BytesOptions

    def train_backend(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """Returns the fixed vocabulary, independent of the texts."""
        vocabulary = {token: token_id for token_id, token in enumerate([*SPECIAL_TOKENS, *byte_alphabet()])}
        return byte_level_tokenizer(models.BPE(vocab=vocabulary, merges=[]), self.options, use_regex=False)
