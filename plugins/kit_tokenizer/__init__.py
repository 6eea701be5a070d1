"""Tokenizers of the `tokenizers` library: characters, words, bytes, and subwords (BPE, unigram) trained on the data."""

from __future__ import annotations

from kit import Component, hookimpl

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """Returns the tokenizers, imported on demand."""
    from kit_tokenizer.bpe import BpeTokenizer
    from kit_tokenizer.bytes import BytesTokenizer
    from kit_tokenizer.characters import CharactersTokenizer
    from kit_tokenizer.unigram import UnigramTokenizer
    from kit_tokenizer.words import WordsTokenizer

    return [BpeTokenizer, BytesTokenizer, CharactersTokenizer, UnigramTokenizer, WordsTokenizer]
