"""A token for each of the 256 bytes: nothing to learn, nothing unknown (ByT5, Xue et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import tokenizers
from tokenizers import models

from kit_tokenizer.byte_level import byte_alphabet, over_bytes
from kit_tokenizer.library import SPECIALS, LibraryTokenizer, TextOptions


class BytesOptions(TextOptions):
    """Options of `bytes`."""

    use: Literal["bytes"] = "bytes"


class BytesTokenizer(LibraryTokenizer):
    """Any text comes back as it was; the id of a byte is its value plus the number of special tokens."""

    options_type = BytesOptions
    options: BytesOptions

    def learn(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """The vocabulary is the same whatever the texts."""
        vocabulary = {token: number for number, token in enumerate([*SPECIALS, *byte_alphabet()])}
        return over_bytes(models.BPE(vocab=vocabulary, merges=[]), self.options, split=False)
