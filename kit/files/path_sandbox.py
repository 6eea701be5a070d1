"""Path sandbox: a recipe may name files below its own folder or the current one, unless the user allows others.

A recipe may come from a stranger. What it extends is sandboxed always; the data it names is sandboxed on the
command line, where a user runs recipes, and not in Python, where code names the files.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

ALLOW = "KIT_ALLOW_OUTSIDE"
"""The environment variable with the folders, as in PATH, that recipes may name files in; 1 allows all."""
SETTING = "[tool.kit] paths"
"""The same setting in the pyproject.toml of the current project."""
HINT = (
    f"say so with --allow-outside, or name the folder in {ALLOW} or, for a project, in {SETTING} of its pyproject.toml"
)

_sandboxed: ContextVar[bool] = ContextVar("sandboxed", default=False)


@contextmanager
def sandboxed(outside: bool = False) -> Iterator[None]:
    """Sandbox the data paths of recipes inside; outside: the user allowed all paths."""
    before = os.environ.get(ALLOW)
    token = _sandboxed.set(True)
    if outside:
        os.environ[ALLOW] = "1"  # inherited by the processes that this one starts
    try:
        yield
    finally:
        _sandboxed.reset(token)
        if outside and before is None:
            del os.environ[ALLOW]
        elif before is not None:
            os.environ[ALLOW] = before


def is_data_sandboxed() -> bool:
    """Whether data paths are sandboxed."""
    return _sandboxed.get()


def is_path_allowed(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a file lies below one of the folders, the current one, or one that the user allowed."""
    if os.environ.get(ALLOW) == "1":
        return True
    wanted = path.resolve()
    return any(wanted.is_relative_to(folder.resolve()) for folder in (*folders, Path(), *_allowed()))


def _allowed() -> Iterator[Path]:
    for name in os.environ.get(ALLOW, "").split(os.pathsep):
        if name:
            yield Path(name).expanduser()
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            try:
                tools = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
            except (OSError, ValueError):
                return
            yield from (folder / name for name in tools.get("kit", {}).get("paths", ()) if isinstance(name, str))
            return
