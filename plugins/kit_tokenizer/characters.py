"""Character tokenizer: one token for each character of the training texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import tokenizers
from pydantic import PositiveInt
from tokenizers import decoders, models

from kit import Special
from kit_tokenizer.fast_tokenizer import SPECIAL_TOKENS, FastTokenizer, NormalizerOptions, build_normalizer


class CharactersOptions(NormalizerOptions):
    """Options of `characters`."""

    use: Literal["characters"] = "characters"
    min_frequency: PositiveInt = 1
    """How often a character must occur to get a token; others are unknown."""


class CharactersTokenizer(FastTokenizer):
    """Character tokenizer; decoding restores texts of known characters exactly."""

    options_type = CharactersOptions
    options: CharactersOptions

    def train_backend(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """Counts characters for a BPE model without merges, which is fast; ids are in code point order."""
        normalizer = build_normalizer(self.options)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(normalizer.normalize_str(text))
        alphabet = sorted(character for character, count in counts.items() if count >= self.options.min_frequency)
        vocabulary = {token: token_id for token_id, token in enumerate([*SPECIAL_TOKENS, *alphabet])}
        model = models.BPE(vocab=vocabulary, merges=[], unk_token=SPECIAL_TOKENS[Special.UNKNOWN])
        backend = tokenizers.Tokenizer(model)
        backend.normalizer = normalizer
        backend.decoder = decoders.Fuse()
        return backend
