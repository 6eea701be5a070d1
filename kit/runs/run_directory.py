"""The folder of a run: its paths, its number, its lock file while it is trained, and its class labels."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Self

from kit.errors import KitError
from kit.files.atomic import explain_os_errors, remove_temporaries, sync_folder, write_text

ROOT = Path("runs")
_NAME = re.compile(r"^\w[\w.-]*$")
_NUMBER = re.compile(r"^[1-9]\d*$")


class RunError(KitError):
    """A run does not exist, or is not valid."""


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
            parent.mkdir(parents=True, exist_ok=True)
            number = max(_numbers(parent), default=0) + 1
            while True:
                try:
                    os.mkdir(parent / str(number))  # fails if another process was quicker: that is the whole lock
                except FileExistsError:
                    number += 1
                else:
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
                return cls(path)
            if path.is_dir():
                numbers = [number for number in _numbers(path) if (path / str(number) / "recipe.yaml").is_file()]
                if numbers:
                    return cls(path / str(max(numbers)))
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

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.path / "recipe.yaml"

    @property
    def lock(self) -> Path:
        """The lock file: versions, hashes, seed and data of the run."""
        return self.path / "lock.json"

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizer."""
        return self.path / "tokenizer"

    @property
    def labels(self) -> Path:
        """The class names, for labelled data."""
        return self.path / "labels.json"

    @property
    def metrics(self) -> Path:
        """The metrics of training, one row for each logged step."""
        return self.path / "metrics.csv"

    @property
    def checkpoints(self) -> Path:
        """The folder of a `CheckpointStore`."""
        return self.path / "checkpoints"

    @property
    def weights(self) -> Path:
        """The final weights, written at the end of training."""
        return self.path / "weights.safetensors"

    @property
    def weights_digest(self) -> Path:
        """The SHA-256 of the final weights, in the format of `sha256sum`."""
        return self.path / "weights.safetensors.sha256"

    @property
    def reports(self) -> Path:
        """The folder of plots and evaluations."""
        return self.path / "reports"

    def write(self, path: Path, text: str) -> None:
        """Write one of its text files atomically."""
        write_text(path, text)


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
    try:
        labels = json.loads(run.labels.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{run.labels} is not JSON: {error}") from error
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise RunError(f"{run.labels} is not a list of names")
    return tuple(labels)


if sys.platform != "win32":
    import fcntl

_LOCK_FILE = ".claim"


@contextmanager
def claim_run(run: RunDirectory) -> Iterator[None]:
    """Locks a run while it is trained; RunError if another process holds it. Called by rank 0."""
    with explain_os_errors(run.path):
        file = open(run.path / _LOCK_FILE, "a+")  # noqa: SIM115 - closed below, and closing is what releases it
    with file:
        if not _try_lock(file):
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise RunError(f"{run.path} is being trained by {holder}; wait for it, or stop it first.")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        remove_temporaries(run.path)
        yield


def is_run_claimed(path: Path) -> bool:
    """Whether a process trains the run now."""
    try:
        with open(path / _LOCK_FILE) as file:
            return not _try_lock(file)
    except OSError:
        return False


def _try_lock(file: IO[str]) -> bool:
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
    try:
        folder = Path(json.loads((run.path / _ORIGIN_FILE).read_text())["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return folder if folder.is_dir() else None
