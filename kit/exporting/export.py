"""Exports a run: asks the exporter what stands in the way, lets it write, and keeps nothing that does not compare."""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kit.component import Options
from kit.contracts.exporter import ExportCheck, Exporter
from kit.errors import KitError, RecipeError
from kit.exporting.choosing import exporter_named, exporter_of
from kit.exporting.sampling import samples_of
from kit.exporting.subject import subject_of
from kit.opening import OpenedRun, open_run
from kit.recipe.load import load_recipe
from kit.runs.atomic import explained
from kit.runs.directory import RunDirectory
from kit.runs.weights import write_digest

if TYPE_CHECKING:
    from kit.kit import Kit

ABOUT = "export.json"


class ExportError(KitError):
    """A model could not be exported, or what was written gives other numbers; nothing is left behind."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    files: Sequence[Path]
    """Everything in the folder, relative to it."""
    checks: Sequence[ExportCheck]
    """How it compares with the model."""
    compared_on: str
    """What texts that was."""


def export(
    run: str | Path | RunDirectory | OpenedRun,
    to: str | Options,
    overrides: Iterable[str] = (),
    *,
    output: str | Path | None = None,
    kit: Kit | None = None,
) -> Exported:
    """Write a trained model for another engine, and compare it before it takes its place.

    to: the name of an exporter, whose options `overrides` change (`quantization=int8`), or its options themselves;
    output: a folder that is not there yet; left out, `exports/NAME` in the run's own folder.
    """
    used = run.kit if isinstance(run, OpenedRun) else kit or _new_kit()
    registry = used.registry
    exporter = exporter_of(to, registry) if isinstance(to, Options) else exporter_named(to, registry, overrides)
    opened = run if isinstance(run, OpenedRun) else open_run(run, used, device="cpu")
    folder = opened.run.path / "exports" / exporter.part_name() if output is None else Path(output)
    if folder.exists():
        raise ExportError(f"{folder} is there already\n    remove it, or name another folder with --output")
    samples, compared_on = samples_of(opened)
    lock = opened.run.lock if opened.run.lock.is_file() else None
    symbols = opened.tokenizers.symbols()
    model = opened.model if opened.device.type == "cpu" else copy.deepcopy(opened.model).cpu()
    subject = subject_of(model, opened.recipe.model, registry, samples, symbols, lock)
    with _placed(folder) as draft, _located(opened):
        problems = list(exporter.objections(subject))
        if problems:
            raise RecipeError(problems)
        exporter.write(subject, draft)
        checks = list(exporter.verify(subject, draft))
        _insist(exporter, checks)
        _describe(opened, exporter, draft, checks, compared_on)
        files = sorted(path.relative_to(draft) for path in draft.rglob("*") if path.is_file())
    return Exported(folder, files, checks, compared_on)


def _new_kit() -> Kit:
    from kit.kit import Kit as NewKit

    return NewKit()


@contextmanager
def _placed(folder: Path) -> Iterator[Path]:
    """A folder to write to, which gets its name when all has gone well and is removed otherwise."""
    with explained(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        draft.chmod(0o755)
    try:
        yield draft
        with explained(folder):
            os.rename(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _located(opened: OpenedRun) -> Iterator[None]:
    """Problems with the line of the run's recipe that they are about."""
    try:
        yield
    except RecipeError as error:
        loaded = load_recipe(opened.run.recipe, opened.kit.registry)
        raise RecipeError([loaded.locate_problem(problem) for problem in error.problems]) from error


def _insist(exporter: Exporter, checks: Sequence[ExportCheck]) -> None:
    if not checks:
        raise ExportError(f"the exporter {exporter.part_name()} compared nothing, so nothing is known of what it wrote")
    wrong = [
        f"{check.what}: differs by {check.difference:.2g}, at most {check.limit:.2g} is accepted"
        for check in checks
        if not check.passed
    ]
    if wrong:
        raise ExportError(
            "\n    ".join([f"what {exporter.part_name()} wrote is not the model, and was removed", *wrong])
        )


def _describe(
    opened: OpenedRun, exporter: Exporter, folder: Path, checks: Sequence[ExportCheck], compared_on: str
) -> None:
    """The recipe, the tokenizers and the names of classes, which every user of the model needs; and what was done.

    Where the weights are those of a run, the folder can be opened as one, so their SHA-256 is put beside them as there.
    """
    run, made = opened.run, RunDirectory(folder)
    if made.weights.is_file():
        write_digest(made)
    shutil.copyfile(run.recipe, folder / run.recipe.name)
    opened.tokenizers.save(folder / run.tokenizer.name)
    if run.labels.is_file():
        shutil.copyfile(run.labels, folder / run.labels.name)
    about = {
        "run": run.label,
        "exporter": exporter.options.model_dump(mode="json"),
        "compared_on": compared_on,
        "checks": [{"what": it.what, "difference": it.difference, "limit": it.limit} for it in checks],
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
