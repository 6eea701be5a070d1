"""Examples as stored token ids: encoded once in a streaming pass and cached, then mapped by every process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kit.contracts.data import Data, Example, Split
from kit.contracts.tokenizer import Special
from kit.data.errors import DataError
from kit.data.fingerprints import digest_of
from kit.data.lines import ParsedLines
from kit.data.paths import cache_folder
from kit.data.store import StoreWriter, TokenStore
from kit.data.storing import whole_folder
from kit.data.tokenizing import Tokenizers

CHUNK = 1024  # examples
CHARACTERS = 1 << 18
VERSION = 1  # goes up when the stored files change meaning


@dataclass(frozen=True)
class Encoded:
    """The examples of a split as ids, without start or end tokens."""

    source: TokenStore
    target: TokenStore | None = None
    labels: TokenStore | None = None

    def __len__(self) -> int:
        return len(self.source)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[examples, sides]: how many ids each example has on each side."""
        sides = [self.source] if self.target is None else [self.source, self.target]
        return np.stack([side.lengths for side in sides], axis=1)


def encode_split(data: Data, split: Split, tokenizers: Tokenizers, cache: Path | None = None) -> Encoded:
    """Each example on its own, for batches of examples; made once, then found in the cache."""
    folder = _folder(data, split, tokenizers, "examples", cache)
    paired, labelled = data.task == "pairs", data.task == "labelled"
    if not folder.is_dir():
        with whole_folder(folder) as draft:
            examples = data.open(split)
            _write(draft, "source", tokenizers.source.size, _sources(examples, tokenizers))
            if paired:
                _write(draft, "target", tokenizers.target.size, _targets(examples, tokenizers))
            if labelled:
                labels = data.labels()
                _write(draft, "label", max(1, len(labels)), _labels(examples, labels, split))
    return Encoded(
        TokenStore(folder, "source"),
        TokenStore(folder, "target") if paired else None,
        TokenStore(folder, "label") if labelled else None,
    )


def encode_documents(data: Data, split: Split, tokenizers: Tokenizers, cache: Path | None = None) -> TokenStore:
    """Texts as documents, each from a start to an end token, for windows over a stream of them."""
    folder = _folder(data, split, tokenizers, "documents", cache)
    if not folder.is_dir():
        with whole_folder(folder) as draft, StoreWriter(draft, "source", tokenizers.source.size) as writer:
            written = False
            for example, ids in _sources(data.open(split), tokenizers):
                if not (example.continues and written):
                    if written:
                        writer.write([Special.END])
                        writer.close_text()
                    writer.write([Special.START])
                writer.write(ids)
                written = True
            if written:
                writer.write([Special.END])
                writer.close_text()
    return TokenStore(folder, "source")


Piece = tuple[Example, Sequence[int]]


def _folder(data: Data, split: Split, tokenizers: Tokenizers, form: str, cache: Path | None) -> Path:
    key = digest_of([VERSION, form, split, data.fingerprint(), tokenizers.fingerprint()])
    return (cache or cache_folder()) / "encoded" / key[:32]


def _write(folder: Path, name: str, vocabulary: int, pieces: Iterator[Piece]) -> None:
    with StoreWriter(folder, name, vocabulary) as writer:
        for _, ids in pieces:
            writer.write(ids)
            writer.close_text()


def _sources(examples: Sequence[Example], tokenizers: Tokenizers) -> Iterator[Piece]:
    for chunk in _chunks(examples):
        yield from zip(chunk, tokenizers.source.encode_batch([example.source for example in chunk]), strict=True)


def _targets(examples: Sequence[Example], tokenizers: Tokenizers) -> Iterator[Piece]:
    for chunk in _chunks(examples):
        yield from zip(chunk, tokenizers.target.encode_batch([example.target or "" for example in chunk]), strict=True)


def _labels(examples: Sequence[Example], labels: tuple[str, ...], split: Split) -> Iterator[Piece]:
    numbers = {label: number for number, label in enumerate(labels)}
    for index, example in enumerate(examples):
        number = numbers.get(example.label or "")
        if number is None:
            known = ", ".join(map(repr, labels[:20])) + (", …" if len(labels) > 20 else "")
            message = f"the label {example.label!r} is one that no training example has; known: {known}"
            if isinstance(examples, ParsedLines):
                raise examples.error(index, message)
            raise DataError(f"example {index + 1} of the {split} split: {message}")
        yield example, [number]


def _chunks(examples: Sequence[Example]) -> Iterator[list[Example]]:
    """Few enough at a time that what the tokenizer holds meanwhile stays small."""
    chunk: list[Example] = []
    length = 0
    for index in range(len(examples)):
        example = examples[index]
        chunk.append(example)
        length += len(example.source) + len(example.target or "")
        if len(chunk) >= CHUNK or length >= CHARACTERS:
            yield chunk
            chunk, length = [], 0
    if chunk:
        yield chunk
