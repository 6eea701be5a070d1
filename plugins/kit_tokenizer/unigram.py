"""A unigram language model of pieces: of all ways to cut a word, the likeliest (Kudo 2018), over bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import tokenizers
from pydantic import Field
from tokenizers import models

from kit import Special
from kit_tokenizer.byte_level import byte_alphabet, over_bytes
from kit_tokenizer.library import SPECIALS, LibraryTokenizer, TextOptions
from kit_tokenizer.pieces import learn_pieces

WORDS = 100_000  # the rest of the distinct words are too rare to matter, and memory stays bounded
LENGTH = 64  # longer words are cut for learning; the library cuts them whole


class UnigramOptions(TextOptions):
    """Options of `unigram`."""

    use: Literal["unigram"] = "unigram"
    size: int = Field(default=8000, ge=len(SPECIALS) + 256)
    """The most tokens, the special ones and the 256 bytes counted."""
    longest: int = Field(default=16, ge=1, le=64)
    """The most bytes in a piece."""


class UnigramTokenizer(LibraryTokenizer):
    """Any text comes back as it was.

    The library cuts text; the pieces are learnt here, since the library's trainer gives other ones each time.
    """

    options_type = UnigramOptions
    options: UnigramOptions

    def learn(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """Count words, then find the pieces that explain them best."""
        cutter = over_bytes(models.BPE(), self.options, split=True)
        counts: Counter[str] = Counter()
        for text in texts:
            uniform = cutter.normalizer.normalize_str(text)
            for word, _ in cutter.pre_tokenizer.pre_tokenize_str(uniform):
                counts.update(word[start : start + LENGTH] for start in range(0, len(word), LENGTH))
        words = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:WORDS])
        pieces = learn_pieces(words, byte_alphabet(), self.options.size - len(SPECIALS), self.options.longest)
        worst = min(score for _, score in pieces)
        vocabulary = [(special, worst - 100.0) for special in SPECIALS] + pieces
        return over_bytes(models.Unigram(vocabulary, unk_id=int(Special.UNKNOWN)), self.options, split=True)
