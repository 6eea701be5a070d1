"""Tokenizers, through the `tokenizers` library: by characters, words, bytes, or pieces learnt from the data."""

from __future__ import annotations

from kit import Component, hookimpl

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The tokenizers of this plugin."""
    from kit_tokenizer.bpe import BpeTokenizer
    from kit_tokenizer.bytes import BytesTokenizer
    from kit_tokenizer.characters import CharactersTokenizer
    from kit_tokenizer.unigram import UnigramTokenizer
    from kit_tokenizer.words import WordsTokenizer

    return [BpeTokenizer, BytesTokenizer, CharactersTokenizer, UnigramTokenizer, WordsTokenizer]
