"""Text as bytes, each written as one visible character: how byte-level models see any text without an unknown token."""

from __future__ import annotations

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from kit_tokenizer.library import TextOptions, normalizer


def byte_alphabet() -> list[str]:
    """The character that stands for each byte, by value: itself where it is visible, else one from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in visible else chr(next(others)) for byte in range(256)]


def over_bytes(model: models.Model, options: TextOptions, *, split: bool) -> tokenizers.Tokenizer:
    """A tokenizer with this model over bytes; split: no token reaches from one word into the next."""
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = normalizer(options)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split)
    inner.decoder = decoders.ByteLevel()
    return inner
