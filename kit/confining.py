"""Which files a recipe may lead to: those below its own folder or the one we are in, unless the person says otherwise.

A recipe may come from a stranger. What it extends is confined always; the data it names is confined for the command
line, where a person runs recipes, and not for Python, where code says which file it wants.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

ALLOW = "KIT_ALLOW_OUTSIDE"
"""1 lets recipes lead anywhere; else folders, as in PATH, that they may lead to."""
SETTING = "[tool.kit] paths"
"""The same in the pyproject.toml of the project that we are in."""
HINT = (
    f"say so with --allow-outside, or name the folder in {ALLOW} or, for a project, in {SETTING} of its pyproject.toml"
)

_confined: ContextVar[bool] = ContextVar("confined", default=False)


@contextmanager
def confined(outside: bool = False) -> Iterator[None]:
    """Within, recipes name data in their folders only; outside: the person said that they may lead anywhere."""
    before = os.environ.get(ALLOW)
    token = _confined.set(True)
    if outside:
        os.environ[ALLOW] = "1"  # the processes that this one starts are to know it too
    try:
        yield
    finally:
        _confined.reset(token)
        if outside and before is None:
            del os.environ[ALLOW]
        elif before is not None:
            os.environ[ALLOW] = before


def data_is_confined() -> bool:
    """Whether data has to lie within the folders."""
    return _confined.get()


def may_read(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a file lies below one of the folders, the current one, or one that the person allowed."""
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
