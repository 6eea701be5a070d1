"""Paths of data files in recipes, and the error for missing or malformed data."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kit.errors import KitError
from kit.files.path_sandbox import HINT, is_data_sandboxed, is_path_allowed


class DataError(KitError):
    """Data is missing or malformed; the message starts with `file:line:` if they are known."""

    def __init__(
        self, message: str, *, path: Path | str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(f"{where}{message}" + (f"\n    {hint}" if hint else ""))


_DEFAULTED = re.compile(r"\$\{(\w+):-([^}]*)\}")


def find_file(name: str, folder: Path | None = None) -> Path:
    """Resolves the name of a data file: expands `~` and `$NAME`, then searches `folder` and the current folder.

    `${NAME:-path}` is the path if NAME is not set in the environment. On the command line the file must be below one of
    these folders, or below one that the user allowed, such as by setting a KIT_ variable that occurs in the name.
    """
    chosen = _DEFAULTED.sub(lambda found: os.environ.get(found[1]) or found[2], name)
    filled = os.path.expanduser(os.path.expandvars(chosen))
    missing = re.search(r"\$\{?(\w+)", filled)
    if missing:
        raise DataError(
            f"the environment variable {missing[1]} is not set, and {name!r} needs it",
            hint=f"set it: export {missing[1]}=…, or write the path out",
        )
    paths = [(start / filled).absolute() for start in (folder or Path(), Path())]
    candidates = paths[:1] if len(set(map(os.path.realpath, paths))) == 1 else paths
    for candidate in candidates:
        if candidate.is_file():
            if is_data_sandboxed() and not is_path_allowed(
                candidate, [*([folder] if folder else []), *_folders_from_variables(name)]
            ):
                raise DataError(f"{name!r} leads to {candidate.resolve()}, outside the recipe's folder", hint=HINT)
            return candidate.resolve()
    tried = ", then for ".join(map(str, candidates))
    kind = "a folder, not a file" if any(candidate.is_dir() for candidate in candidates) else "no such file"
    raise DataError(f"{kind}: {name!r} (looked for {tried})", hint="paths are read from the recipe's folder")


def _folders_from_variables(name: str) -> list[Path]:
    """The folders of the KIT_ variables in a name; others, such as HOME, allow nothing."""
    found = re.findall(r"\$\{?(KIT_\w+)", name)
    return [Path(os.environ[variable]).expanduser() for variable in found if os.environ.get(variable)]
