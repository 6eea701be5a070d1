"""A mistake in data, with the file and line it is in."""

from __future__ import annotations

from pathlib import Path

from kit.errors import KitError


class DataError(KitError):
    """Data is missing or malformed; the message starts with `file:line:` where they are known."""

    def __init__(
        self, message: str, *, path: Path | str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(f"{where}{message}" + (f"\n    {hint}" if hint else ""))
