"""Token stores: the ids of an encoded split in memory-mapped files, written once and found in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kit.contracts.data import Data, Example, Split
from kit.contracts.tokenizer import Special
from kit.data.cache_folder import atomic_folder, cache_folder, digest_of
from kit.data.lines import ParsedLines
from kit.data.paths import DataError
from kit.data.tokenizers import Tokenizers


class TokenStore:
    """The token ids of sequences 0, 1, 2, …, memory-mapped; pickles as a path."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self._open()

    def _open(self) -> None:
        width = (self.folder / f"{self.name}.width").read_text()
        self.offsets: NDArray[np.int64] = np.memmap(self.folder / f"{self.name}.offsets", dtype=np.int64, mode="r")
        """The start of each sequence in `ids`, and the end of the last (cu_seqlens)."""
        file = self.folder / f"{self.name}.ids"
        kind = np.dtype(f"uint{width}")
        # An empty file cannot be mapped, and all sequences may be empty.
        self.ids: NDArray[Any] = np.memmap(file, dtype=kind, mode="r") if file.stat().st_size else np.zeros(0, kind)
        """The ids of all sequences, concatenated."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return np.asarray(self.ids[self.offsets[index] : self.offsets[index + 1]], dtype=np.int64)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each sequence."""
        return np.diff(self.offsets)

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "name": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


class TokenStoreWriter:
    """Writes a token store sequence by sequence; a context manager."""

    def __init__(self, folder: Path, name: str, vocabulary: int) -> None:
        width = 16 if vocabulary <= 1 << 16 else 32
        self._kind = np.dtype(f"uint{width}")
        (folder / f"{name}.width").write_text(str(width))
        self._files: tuple[BinaryIO, BinaryIO] = (
            (folder / f"{name}.ids").open("wb"),
            (folder / f"{name}.offsets").open("wb"),
        )
        self._end = 0
        self._vocabulary = vocabulary

    def __enter__(self) -> TokenStoreWriter:
        self._mark()
        return self

    def _mark(self) -> None:
        self._files[1].write(self._end.to_bytes(8, "little"))

    def write(self, ids: Sequence[int]) -> None:
        """Append ids to the current sequence."""
        values = np.asarray(ids, dtype=np.int64)
        if len(values) and not 0 <= values.min() <= values.max() < self._vocabulary:
            raise DataError(
                f"a tokenizer gave the id {values.max()}, and its vocabulary has {self._vocabulary} ids, from 0"
            )
        self._files[0].write(values.astype(self._kind).tobytes())
        self._end += len(values)

    def end_sequence(self) -> None:
        """End the current sequence."""
        self._mark()

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()


CHUNK = 1024  # examples
CHARACTERS = 1 << 18
VERSION = 1  # goes up when the stored files change meaning


@dataclass(frozen=True)
class EncodedSplit:
    """The token ids of the examples of a split, without special tokens."""

    source: TokenStore
    target: TokenStore | None = None
    labels: TokenStore | None = None

    def __len__(self) -> int:
        return len(self.source)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[examples, sides]: the number of ids of each example on each side."""
        sides = [self.source] if self.target is None else [self.source, self.target]
        return np.stack([side.lengths for side in sides], axis=1)


def encode_split(data: Data, split: Split, tokenizers: Tokenizers, cache: Path | None = None) -> EncodedSplit:
    """Encodes each example as a sequence, for batches of examples; cached."""
    folder = _folder(data, split, tokenizers, "examples", cache)
    paired, labelled = data.task == "pairs", data.task == "labelled"
    if not folder.is_dir():
        with atomic_folder(folder) as draft:
            examples = data.open(split)
            _write(draft, "source", tokenizers.source.size, _sources(examples, tokenizers))
            if paired:
                _write(draft, "target", tokenizers.target.size, _targets(examples, tokenizers))
            if labelled:
                labels = data.labels()
                _write(draft, "label", max(1, len(labels)), _labels(examples, labels, split))
    return EncodedSplit(
        TokenStore(folder, "source"),
        TokenStore(folder, "target") if paired else None,
        TokenStore(folder, "label") if labelled else None,
    )


def encode_documents(data: Data, split: Split, tokenizers: Tokenizers, cache: Path | None = None) -> TokenStore:
    """Encodes a split as documents between start and end tokens, for windows over the token stream; cached."""
    folder = _folder(data, split, tokenizers, "documents", cache)
    if not folder.is_dir():
        with atomic_folder(folder) as draft, TokenStoreWriter(draft, "source", tokenizers.source.size) as writer:
            written = False
            for example, ids in _sources(data.open(split), tokenizers):
                if not (example.continues and written):
                    if written:
                        writer.write([Special.END])
                        writer.end_sequence()
                    writer.write([Special.START])
                writer.write(ids)
                written = True
            if written:
                writer.write([Special.END])
                writer.end_sequence()
    return TokenStore(folder, "source")


Piece = tuple[Example, Sequence[int]]


def _folder(data: Data, split: Split, tokenizers: Tokenizers, form: str, cache: Path | None) -> Path:
    key = digest_of([VERSION, form, split, data.fingerprint(), tokenizers.fingerprint()])
    return (cache or cache_folder()) / "encoded" / key[:32]


def _write(folder: Path, name: str, vocabulary: int, pieces: Iterator[Piece]) -> None:
    with TokenStoreWriter(folder, name, vocabulary) as writer:
        for _, ids in pieces:
            writer.write(ids)
            writer.end_sequence()


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
