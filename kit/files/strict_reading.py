"""Strict reading of files that may come from a stranger: regular files only, no links out of a folder, typed JSON."""

from __future__ import annotations

import errno
import os
import reprlib
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kit.errors import KitError


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read; OSError if it is a named pipe or a device, which could keep a reader waiting for ever."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "found a pipe or a device, wanted a regular file", str(path))
    return file


def read_regular(path: Path) -> bytes:
    """The content of a regular file."""
    with open_regular(path) as file:
        return file.read()


def foreign_entry(folder: Path) -> str | None:
    """What is wrong with the first link in a folder that leads out of it, or pipe, socket or device; None if none."""
    root = Path(os.path.realpath(folder))
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            target = os.path.realpath(path)
            if not Path(target).is_relative_to(root):
                return f"{path} is a link to {target!r}, outside of the run; put a copy in its place"
            if path.exists() and not (path.is_file() or path.is_dir()):
                return f"{path} is a pipe, a socket or a device, wanted a file or a folder; remove it"
    return None


def parse_json(kind: Any, data: bytes, what: str, error: type[KitError]) -> Any:
    """Parse JSON strictly as a type that pydantic knows; an `error` says what, which field and what was found."""
    try:
        return TypeAdapter(kind).validate_json(data, strict=True)
    except ValidationError as problem:
        raise error(f"{what}: {first_mistake(problem)}") from problem


def first_mistake(problem: Exception) -> str:
    """One line for the first mistake that pydantic found: the field, what was wanted and found; else the error."""
    if not isinstance(problem, ValidationError):
        return f"{type(problem).__name__}: {problem}"
    first = problem.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))[:200] or "the file"
    return f"{field if field.isprintable() else ascii(field)}: {first['msg']} (found {reprlib.repr(first['input'])})"
