"""Byte-level tokenization: UTF-8 bytes, each written as one visible character, so that no text is out of vocabulary."""

from __future__ import annotations

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from kit_tokenizer.fast_tokenizer import NormalizerOptions, build_normalizer


def byte_alphabet() -> list[str]:
    """Returns GPT-2's character of each byte: the byte itself if it is visible, else a character from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in visible else chr(next(others)) for byte in range(256)]


def byte_level_tokenizer(model: models.Model, options: NormalizerOptions, *, use_regex: bool) -> tokenizers.Tokenizer:
    """Builds a byte-level tokenizer; use_regex: pre-tokenize by GPT-2's regex, so that no token spans two words."""
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = build_normalizer(options)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)
    backend.decoder = decoders.ByteLevel()
    return backend
