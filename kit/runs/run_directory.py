"""The folder of a run: its paths, its number, its lock file while it is trained, and its class labels."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from kit.errors import KitError
from kit.files.atomic import explain_os_errors, remove_temporaries, sync_folder, write_text
from kit.files.strict_reading import foreign_entry, open_regular, parse_json, read_regular

ROOT = Path("runs")
_NAME = re.compile(r"^\w[\w.-]*$")
_NUMBER = re.compile(r"^[1-9]\d*$")
_Run = TypeVar("_Run", bound="RunDirectory")


class RunError(KitError):
    """A run does not exist, or is not valid."""


class _Entry:
    """The path of an entry of a run directory."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, run: RunDirectory, owner: type) -> Path:
        return run.path / self.name


@dataclass(frozen=True)
class RunDirectory:
    """The folder of a run: recipe, lock, tokenizer, metrics, checkpoints, weights and reports."""

    path: Path

    @classmethod
    def create(cls, name: str, root: Path = ROOT) -> Self:
        """Creates a folder with the next free number; safe for concurrent starts."""
        if not _NAME.match(name):
            raise RunError(
                f"a run cannot be called {name!r}; wanted letters, digits, '-', '_' and '.', such as 'pronounce'."
            )
        parent = root / name
        with explain_os_errors(parent):
            while True:
                parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError, FileExistsError):
                    # Fails if another process was quicker, which is the whole lock, or removed the empty parent again.
                    number = max(_numbers(parent), default=0) + 1
                    os.mkdir(parent / str(number))
                    break
            sync_folder(parent)
            run = cls(parent / str(number))
            for folder in (run.tokenizer, run.checkpoints, run.reports):
                folder.mkdir()
            return run

    @classmethod
    def open(cls, text: str | Path, root: Path = ROOT) -> Self:
        """A run by its folder (`runs/pronounce/3`), its name and number (`pronounce/3`) or its name (the newest)."""
        given = Path(text)
        for path in (given, root / given):
            if (path / "recipe.yaml").is_file():
                return _checked(cls(path))
            if path.is_dir():
                numbers = [number for number in _numbers(path) if (path / str(number) / "recipe.yaml").is_file()]
                if numbers:
                    return _checked(cls(path / str(max(numbers))))
                if path.name.isdigit():
                    raise RunError(
                        f"{path} holds no recipe.yaml, so it is not a run (or one that was stopped at once)."
                    )
        raise RunError(f"no run {str(text)!r}. {_instead(str(text), cls.all(root), root)}")

    @classmethod
    def all(cls, root: Path = ROOT) -> list[Self]:
        """Every run under a folder, by name and number."""
        if not root.is_dir():
            return []
        names = sorted(path for path in root.iterdir() if path.is_dir())
        runs = [cls(path / str(number)) for path in names for number in sorted(_numbers(path))]
        return [run for run in runs if run.recipe.is_file()]

    @property
    def name(self) -> str:
        """The name of the recipe."""
        return self.path.resolve().parent.name

    @property
    def number(self) -> int:
        """The number of the run; 0 if the folder was moved."""
        name = self.path.resolve().name
        return int(name) if _NUMBER.match(name) else 0

    @property
    def label(self) -> str:
        """The name on the command line, such as `pronounce/3`."""
        return f"{self.name}/{self.number}" if self.number else str(self.path)

    recipe = _Entry("recipe.yaml")
    """The resolved recipe."""
    lock = _Entry("lock.json")
    """The lock file: versions, hashes, seed and data of the run."""
    tokenizer = _Entry("tokenizer")
    """The folder of the tokenizer."""
    labels = _Entry("labels.json")
    """The class names, for labelled data."""
    metrics = _Entry("metrics.csv")
    """The metrics of training, one row for each logged step."""
    checkpoints = _Entry("checkpoints")
    """The folder of a `CheckpointStore`."""
    weights = _Entry("weights.safetensors")
    """The final weights, written at the end of training."""
    weights_digest = _Entry("weights.safetensors.sha256")
    """The SHA-256 of the final weights, in the format of `sha256sum`."""
    reports = _Entry("reports")
    """The folder of plots and evaluations."""

    def write(self, path: Path, text: str) -> None:
        """Write one of its text files atomically."""
        write_text(path, text)


def _checked(run: _Run) -> _Run:
    if found := foreign_entry(run.path):
        raise RunError(f"{found}.")
    return run


def _instead(text: str, runs: Sequence[RunDirectory], root: Path) -> str:
    """A hint: runs with a similar label or name; else the number of runs."""
    known = sorted({run.label for run in runs} | {run.name for run in runs})
    near = get_close_matches(text.removeprefix(f"{root}/"), known, n=3)
    if near:
        return f"Nearest: {', '.join(near)}."
    if not runs:
        return f"{root} holds no runs."
    return f"{root} holds {len(runs)} run{'s' if len(runs) > 1 else ''}; `kit runs` lists them."


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if _NUMBER.match(path.name)]


def write_labels(run: RunDirectory, labels: Sequence[str]) -> None:
    """Store the class names in the run."""
    if labels:
        run.write(run.labels, json.dumps(list(labels), ensure_ascii=False) + "\n")


def read_labels(run: RunDirectory) -> tuple[str, ...]:
    """The class names; empty for other tasks."""
    if not run.labels.is_file():
        return ()
    what = f"{run.labels} is not a list of names"
    labels: tuple[str, ...] = parse_json(tuple[str, ...], read_regular(run.labels), what, RunError)
    return labels


if sys.platform != "win32":
    import fcntl

_LOCK_FILE = ".claim"


@contextmanager
def claim_run(run: RunDirectory) -> Iterator[None]:
    """Locks a run while it is trained; RunError if another process holds it. Called by rank 0."""
    with explain_os_errors(run.path):
        _checked(run).reports.mkdir(exist_ok=True)  # an exported run and one from an archive may lack empty folders
        file = open(run.path / _LOCK_FILE, "a+")  # noqa: SIM115 - closed below, and closing is what releases it
    with file:
        if not _try_lock(file):
            file.seek(0)
            holder = file.read(200).strip() or "another process"
            raise RunError(f"{run.path} is being trained by {holder}; wait for it, or stop it first.")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        remove_temporaries(run.path)
        yield


def is_run_claimed(path: Path) -> bool:
    """Whether a process trains the run now."""
    try:
        with open_regular(path / _LOCK_FILE) as file:
            return not _try_lock(file)
    except OSError:
        return False


def _try_lock(file: IO[Any]) -> bool:
    if sys.platform != "win32":  # Windows has no advisory locks: runs are not locked
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


_ORIGIN_FILE = "origin.json"


def write_origin(run: RunDirectory, folder: Path | None) -> None:
    """Store the recipe's folder, the base of relative paths."""
    run.write(run.path / _ORIGIN_FILE, json.dumps({"folder": str((folder or Path()).resolve())}) + "\n")


def read_origin(run: RunDirectory) -> Path | None:
    """The recipe's folder; None if it does not exist, as on another machine."""
    path = run.path / _ORIGIN_FILE
    try:
        folder = Path(parse_json(dict[str, str], read_regular(path), str(path), RunError).get("folder", ""))
        return folder if folder.is_absolute() and folder.is_dir() else None
    except OSError:
        return None
