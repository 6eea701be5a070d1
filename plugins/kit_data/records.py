"""Readers of one record of TSV, CSV, JSON lines or SCAN's format; a ValueError says what was expected."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol

from kit import DataError

Format = Literal["tsv", "csv", "jsonl", "scan"]
Field = str | int
"""A JSON key, a column name of a header, or a column number from 1."""


LINE_ENDS = "lines that end with LF or CR LF were wanted\n    if they end with CR: tr '\\r' '\\n' < OLD > NEW"


class Reader(Protocol):
    """Reads the requested fields of a record."""

    def __call__(self, record: str) -> list[str]:
        """The values of the fields, in their order."""
        ...


def format_of(path: Path, allowed: Sequence[Format]) -> Format:
    """The format by the file extension, `.gz` ignored."""
    suffix = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    suffix = {"json": "jsonl", "ndjson": "jsonl", "tab": "tsv"}.get(suffix, suffix)
    for known in allowed:
        if suffix == known and known != "scan":
            return known
    raise DataError(
        f"its name does not say what format it is in; {', '.join(allowed)} are known",
        path=path,
        hint="say it: format: …",
    )


@dataclass(frozen=True)
class ColumnReader:
    """Reads columns of TSV or CSV; columns: their indices; count: the required number of columns, None for any."""

    format: Literal["tsv", "csv"]
    columns: tuple[int, ...]
    names: tuple[str, ...]
    count: int | None = None

    def __call__(self, record: str) -> list[str]:
        """The cells of the columns."""
        cells = split_cells(record, self.format)
        if self.count is not None and len(cells) != self.count:
            raise ValueError(f"{self.count} columns were wanted ({', '.join(self.names)}), found {len(cells)}")
        if len(cells) <= max(self.columns):
            raise ValueError(f"at least {max(self.columns) + 1} columns were wanted, found {len(cells)}")
        return _nonblank(self.names, [cells[column] for column in self.columns])


@dataclass(frozen=True)
class JsonReader:
    """Reads values of a JSON object by key; a dot enters a nested object: `translation.en`."""

    keys: tuple[str, ...]

    def __call__(self, record: str) -> list[str]:
        """The values of the keys."""
        try:
            value = json.loads(record)
        except json.JSONDecodeError as error:
            raise ValueError(f"an object of JSON was wanted: {error.msg} at character {error.pos + 1}") from error
        except RecursionError:
            raise ValueError("an object of JSON was wanted, found one that is nested too deep to be read") from None
        except ValueError as error:  # Python refuses to convert thousands of digits
            raise ValueError("a number of at most 4300 digits was wanted in JSON, found a longer one") from error
        return _nonblank(self.keys, [nested_value(value, key) for key in self.keys])


class ScanReader:
    """Reads SCAN's format: `IN: … OUT: …` (Lake and Baroni 2018)."""

    def __call__(self, record: str) -> list[str]:
        """Source, target."""
        if not record.startswith("IN: ") or " OUT: " not in record:
            raise ValueError(f"«IN: … OUT: …» was wanted, found {quoted([record])}")
        source, _, target = record.removeprefix("IN: ").partition(" OUT: ")
        return _nonblank(("source", "target"), [source, target])


def split_cells(record: str, file_format: Literal["tsv", "csv"]) -> list[str]:
    """The cells of a record."""
    if file_format == "tsv":
        return record.split("\t")
    try:
        return next(csv.reader([record], strict=True), [])
    except csv.Error as error:
        if str(error).startswith("new-line"):
            raise ValueError(f"a carriage return was found outside quotes; {LINE_ENDS}") from error
        raise ValueError(f"a record of CSV was wanted: {error}") from error


def nested_value(value: object, key: str) -> str:
    """The value of a key as a string; numbers and booleans are converted."""
    for step in key.split("."):
        if not isinstance(value, Mapping) or step not in value:
            found = f"keys {quoted(map(str, value))}" if isinstance(value, Mapping) else type(value).__name__
            raise ValueError(f"the key {key!r} was wanted, found {found}")
        value = value[step]
    if not isinstance(value, str | int | float):
        raise ValueError(f"a text was wanted at the key {key!r}, found {type(value).__name__}")
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start].encode("unicode_escape").decode()
        raise ValueError(
            f"{half} alone was found at the key {key!r}, which is half of a surrogate pair; both were wanted, such as "
            "\\ud83d\\ude00"
        ) from error
    return text


def quoted(found: Iterable[str], most: int = 8, longest: int = 60) -> str:
    """Pieces of a file for a message: the first of them in quotes, each in one line and cut."""
    texts = list(islice(found, most + 1))
    cut = (text if len(text) <= longest else f"{text[:longest]}..." for text in texts[:most])
    return ", ".join([*(f"'{text}'".replace("\n", "\\n") for text in cut), *(["..."] if len(texts) > most else [])])


def _nonblank(names: Sequence[str], texts: list[str]) -> list[str]:
    for name, text in zip(names, texts, strict=True):
        if not text.strip():
            raise ValueError(f"the {name} is empty; a text was wanted")
    return texts
