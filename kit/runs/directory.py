"""The folder of one run, `runs/<name>/<n>/`, and what is where in it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Self

from kit.errors import KitError
from kit.runs.atomic import explained, sync_folder, write_text

ROOT = Path("runs")
_NAME = re.compile(r"^\w[\w.-]*$")
_NUMBER = re.compile(r"^[1-9]\d*$")


class RunError(KitError):
    """A run is not there, or is not what was asked for."""


@dataclass(frozen=True)
class RunDirectory:
    """One run: its recipe, its lock, its tokenizer, metrics, checkpoints, weights and reports."""

    path: Path

    @classmethod
    def create(cls, name: str, root: Path = ROOT) -> Self:
        """A new folder with the next free number; two that start at once get two numbers."""
        if not _NAME.match(name):
            raise RunError(
                f"a run cannot be called {name!r}; wanted letters, digits, '-', '_' and '.', such as 'pronounce'."
            )
        parent = root / name
        with explained(parent):
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
        """Which run of that name; 0 for a run that was moved out of its place."""
        name = self.path.resolve().name
        return int(name) if _NUMBER.match(name) else 0

    @property
    def label(self) -> str:
        """What a person types to name it."""
        return f"{self.name}/{self.number}" if self.number else str(self.path)

    @property
    def recipe(self) -> Path:
        """The recipe with everything resolved."""
        return self.path / "recipe.yaml"

    @property
    def lock(self) -> Path:
        """What the run was made with."""
        return self.path / "lock.json"

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizer."""
        return self.path / "tokenizer"

    @property
    def labels(self) -> Path:
        """The names of the classes, where the data has classes."""
        return self.path / "labels.json"

    @property
    def metrics(self) -> Path:
        """The figures of training, one row a step that was logged."""
        return self.path / "metrics.csv"

    @property
    def checkpoints(self) -> Path:
        """The folder of a `CheckpointStore`."""
        return self.path / "checkpoints"

    @property
    def weights(self) -> Path:
        """The finished model; there once training has ended."""
        return self.path / "weights.safetensors"

    @property
    def weights_digest(self) -> Path:
        """The SHA-256 of the finished model, as `sha256sum` writes it; not there in older runs."""
        return self.path / "weights.safetensors.sha256"

    @property
    def reports(self) -> Path:
        """The folder of plots and evaluations."""
        return self.path / "reports"

    def write(self, path: Path, text: str) -> None:
        """Write one of its text files, whole or not at all."""
        write_text(path, text)


def _instead(text: str, runs: Sequence[RunDirectory], root: Path) -> str:
    """The runs whose label or name is near to what was typed; else how many there are."""
    known = sorted({run.label for run in runs} | {run.name for run in runs})
    near = get_close_matches(text.removeprefix(f"{root}/"), known, n=3)
    if near:
        return f"Nearest: {', '.join(near)}."
    if not runs:
        return f"{root} holds no runs."
    return f"{root} holds {len(runs)} run{'s' if len(runs) > 1 else ''}; `kit runs` lists them."


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if _NUMBER.match(path.name)]
