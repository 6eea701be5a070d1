"""Which tests `make quick` takes: layers, recipes and plugin loading, then those of the packages that a change touches.

The tests of `kit/<package>` and `plugins/<package>` are in `tests/<package>`. A change is what differs from the commit
where the branch left the main branch; on the main branch itself, what is not committed, or else the last commit.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[2]
ALWAYS = ("test_layers.py", "test_public_names.py", "test_hooks.py", "recipe", "plugin")
STARTS_PROCESSES = "xdist_group"
"""A file with this marker starts trainings, servers, browsers or builds; no such file is quick."""
NEVER = ("docs", "kernels/cpp", "test_readme.py")
"""Tests of every page, and of C++, without which quick tests run."""
MOST_FOLDERS = 6
"""Of those that a change touches, those with the most changed files; to collect the tests of all takes too long."""
SECONDS = 60.0
"""After these, tests of what was changed are left out, and the end of the session says how many."""
_STARTED = time.monotonic()


def is_taken(path: Path) -> bool:
    """Whether a file or folder of tests is among the quick ones."""
    if path.is_dir():
        return any(path == wanted or path in wanted.parents or wanted in path.parents for wanted in _wanted())
    if STARTS_PROCESSES in path.read_text(encoding="utf-8"):
        return False
    return any(path == wanted or wanted in path.parents for wanted in _wanted())


def comes_first(path: Path) -> bool:
    """Whether a file is taken whatever was changed."""
    return any(path == wanted or wanted in path.parents for wanted in _always())


def is_too_late() -> bool:
    """Whether the time for what was changed is over."""
    return time.monotonic() - _STARTED > SECONDS


@cache
def _always() -> tuple[Path, ...]:
    return tuple(TESTS / name for name in ALWAYS)


@cache
def _wanted() -> frozenset[Path]:
    return frozenset({*_always(), *_touched()[:MOST_FOLDERS]})


def left_out() -> list[str]:
    """What a change touches and is not taken, because it touches so much."""
    return [path.relative_to(TESTS).as_posix() for path in _touched()[MOST_FOLDERS:]]


@cache
def _touched() -> list[Path]:
    """The tests of what was changed, those with the most changed files first."""
    never = [TESTS / name for name in (*ALWAYS, *NEVER)]
    counts = Counter(path for name in _changed_files() if (path := _tests_of(Path(name))).exists())
    return [path for path, _ in counts.most_common() if not any(path.is_relative_to(each) for each in never)]


def _tests_of(changed: Path) -> Path:
    """The folder or file with the tests of a file of the project."""
    match changed.parts:
        case ("kit" | "plugins" | "tests", package, _, *_) if package != "support":
            return TESTS / package
        case ("tests", name) if name.startswith("test_"):
            return TESTS.parent / changed
    return TESTS / "no tests"


def _changed_files() -> list[str]:
    """Relative to the project; none where this is no git repository."""
    head = _git("rev-parse", "HEAD")
    bases = (_git("merge-base", "HEAD", name) for name in ("origin/HEAD", "origin/main", "main"))
    base = next((found for found in bases if found and found != head), head)
    changed = [*_git("diff", "--name-only", *base), *_git("ls-files", "--others", "--exclude-standard")]
    return changed or _git("diff", "--name-only", "HEAD~1")


def _git(*arguments: str) -> list[str]:
    try:
        done = subprocess.run(["git", *arguments], cwd=TESTS.parent, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []
