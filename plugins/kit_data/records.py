"""Reading one record of TSV, CSV, JSON lines or the SCAN notation; a ValueError says what was wanted."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from kit import DataError

Format = Literal["tsv", "csv", "jsonl", "scan"]
Field = str | int
"""A name (a key of JSON, a column with a header) or the number of a column, counted from 1."""


class Reader(Protocol):
    """Makes the wanted texts of a record."""

    def __call__(self, record: str) -> list[str]:
        """The texts, in the order of the fields."""
        ...


def format_of(path: Path, allowed: Sequence[Format]) -> Format:
    """The format that a file's name ends in, `.gz` left aside."""
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
    """Columns of a line of TSV or a record of CSV; columns: their numbers, from 0; count: how many a line must have."""

    format: Literal["tsv", "csv"]
    columns: tuple[int, ...]
    names: tuple[str, ...]
    count: int | None = None

    def __call__(self, record: str) -> list[str]:
        """The cells of the wanted columns."""
        cells = split_cells(record, self.format)
        if self.count is not None and len(cells) != self.count:
            raise ValueError(f"{self.count} columns were wanted ({', '.join(self.names)}), found {len(cells)}")
        if len(cells) <= max(self.columns):
            raise ValueError(f"at least {max(self.columns) + 1} columns were wanted, found {len(cells)}")
        return _filled(self.names, [cells[column] for column in self.columns])


@dataclass(frozen=True)
class JsonReader:
    """Texts of an object of JSON by key; a dot in a key goes inside: `translation.en`."""

    keys: tuple[str, ...]

    def __call__(self, record: str) -> list[str]:
        """The texts at the wanted keys."""
        try:
            value = json.loads(record)
        except json.JSONDecodeError as error:
            raise ValueError(f"an object of JSON was wanted: {error.msg} at character {error.pos + 1}") from error
        return _filled(self.keys, [pick(value, key) for key in self.keys])


class ScanReader:
    """`IN: … OUT: …`, as the SCAN tasks are written."""

    def __call__(self, record: str) -> list[str]:
        """Source and target."""
        if not record.startswith("IN: ") or " OUT: " not in record:
            raise ValueError(f"«IN: … OUT: …» was wanted, found {record[:60]!r}")
        source, _, target = record.removeprefix("IN: ").partition(" OUT: ")
        return _filled(("source", "target"), [source, target])


def split_cells(record: str, form: Literal["tsv", "csv"]) -> list[str]:
    """The cells of a record."""
    if form == "tsv":
        return record.split("\t")
    try:
        return next(csv.reader([record], strict=True), [])
    except csv.Error as error:
        raise ValueError(f"a record of CSV was wanted: {error}") from error


def pick(value: object, key: str) -> str:
    """The text at a key, numbers and truth values written out."""
    for step in key.split("."):
        if not isinstance(value, Mapping) or step not in value:
            found = f"keys {', '.join(map(repr, value))}" if isinstance(value, Mapping) else type(value).__name__
            raise ValueError(f"the key {key!r} was wanted, found {found}")
        value = value[step]
    if not isinstance(value, str | int | float):
        raise ValueError(f"a text was wanted at the key {key!r}, found {type(value).__name__}")
    return str(value)


def _filled(names: Sequence[str], texts: list[str]) -> list[str]:
    for name, text in zip(names, texts, strict=True):
        if not text.strip():
            raise ValueError(f"the {name} is empty; a text was wanted")
    return texts
