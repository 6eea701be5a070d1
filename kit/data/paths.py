"""Finding the files that a recipe names, and the folder where derived files are kept."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kit.confining import HINT, data_is_confined, may_read
from kit.data.errors import DataError

_DEFAULTED = re.compile(r"\$\{(\w+):-([^}]*)\}")


def find_file(name: str, folder: Path | None = None) -> Path:
    """The file of this name: `~` and `$NAME` are filled in, then `folder` and the current one are searched.

    `${NAME:-path}` is the path where NAME is not set in the environment. On the command line the file has to lie below
    one of these folders, or below one that the person named, such as by setting a KIT_ variable that is in the name.
    """
    chosen = _DEFAULTED.sub(lambda found: os.environ.get(found[1]) or found[2], name)
    filled = os.path.expanduser(os.path.expandvars(chosen))
    missing = re.search(r"\$\{?(\w+)", filled)
    if missing:
        raise DataError(
            f"the environment variable {missing[1]} is not set, and {name!r} needs it",
            hint=f"set it: export {missing[1]}=…, or write the path out",
        )
    places = [(start / filled).absolute() for start in (folder or Path(), Path())]
    candidates = places[:1] if len(set(map(os.path.realpath, places))) == 1 else places
    for candidate in candidates:
        if candidate.is_file():
            if data_is_confined() and not may_read(candidate, [*([folder] if folder else []), *_named_by_person(name)]):
                raise DataError(f"{name!r} leads to {candidate.resolve()}, outside the recipe's folder", hint=HINT)
            return candidate.resolve()
    tried = ", then for ".join(map(str, candidates))
    kind = "a folder, not a file" if any(candidate.is_dir() for candidate in candidates) else "no such file"
    raise DataError(f"{kind}: {name!r} (looked for {tried})", hint="paths are read from the recipe's folder")


def _named_by_person(name: str) -> list[Path]:
    """The folders that variables in a name stand for; only KIT_ ones, since every machine has a HOME."""
    found = re.findall(r"\$\{?(KIT_\w+)", name)
    return [Path(os.environ[variable]).expanduser() for variable in found if os.environ.get(variable)]


def cache_folder() -> Path:
    """Where indexes and encoded data are kept, made if needed: `$XDG_CACHE_HOME/kitformer` or `~/.cache/kitformer`."""
    home = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(home) if home else Path.home() / ".cache") / "kitformer"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot make the cache folder: {error.strerror}",
            path=folder,
            hint="set XDG_CACHE_HOME to another folder",
        ) from error
    return folder
