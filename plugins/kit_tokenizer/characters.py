"""A token for each character of the training texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import tokenizers
from pydantic import PositiveInt
from tokenizers import decoders, models

from kit import Special
from kit_tokenizer.library import SPECIALS, LibraryTokenizer, TextOptions, normalizer


class CharactersOptions(TextOptions):
    """Options of `characters`."""

    use: Literal["characters"] = "characters"
    minimum: PositiveInt = 1
    """How often a character must occur to get a token; others are unknown."""


class CharactersTokenizer(LibraryTokenizer):
    """Any text of known characters comes back as it was."""

    options_type = CharactersOptions
    options: CharactersOptions

    def learn(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """Count characters; ids follow the order of Unicode."""
        uniform = normalizer(self.options)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(uniform.normalize_str(text))
        known = sorted(character for character, count in counts.items() if count >= self.options.minimum)
        # Pairs of characters are never merged: a byte-pair model without merges gives characters, fast.
        vocabulary = {token: number for number, token in enumerate([*SPECIALS, *known])}
        inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=SPECIALS[Special.UNKNOWN]))
        inner.normalizer = uniform
        inner.decoder = decoders.Fuse()
        return inner
