"""Exports a trained run: writes it into a draft folder with an exporter, compares results, and describes the export."""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError

from kit.contracts.exporter import Exportable, ExportCheck, Exporter, ExportSample
from kit.contracts.mask import Mask
from kit.errors import KitError, RecipeError
from kit.exporting.contract import input_contract
from kit.exporting.sampling import samples_of
from kit.files.atomic import explain_os_errors
from kit.kernels.devices import is_cpu
from kit.model.families import Model, Tower
from kit.plugin.component import Options
from kit.plugin.registry import Registry
from kit.prediction.load_run import LoadedRun, load_run
from kit.prediction.predictor import Predictor
from kit.recipe.loading import apply_overrides, load_recipe
from kit.recipe.nodes import MappingNode, SourceLocation, from_plain, to_plain
from kit.recipe.parts import options_within
from kit.recipe.sections import ModelSection
from kit.recipe.slot_schema import bind
from kit.recipe.validation_errors import explain_errors
from kit.runs.run_directory import RunDirectory
from kit.runs.weights import write_digest
from kit.sequence.batch_layout import TokenBatch

if TYPE_CHECKING:
    from kit.kit import Kit


def exporter_named(name: str, registry: Registry, overrides: Iterable[str] = ()) -> Exporter:
    """Builds the exporter of this name with changed options; raises RecipeError with every wrong option."""
    found = registry.find(Exporter.kind, name)
    bound = bind(found.component.options_type, registry)
    root = from_plain({"use": found.name}, SourceLocation(f"--to {name}"))
    assert isinstance(root, MappingNode)
    data = to_plain(apply_overrides(root, overrides, bound))
    try:
        return exporter_of(bound.model_validate(data), registry)
    except ValidationError as error:
        raise RecipeError(list(explain_errors(error.errors(include_url=False), bound, data))) from None


def exporter_of(options: Options, registry: Registry) -> Exporter:
    """Builds the exporter of these options."""
    component: Any = registry.part_for_options(type(options)).component
    exporter: Exporter = component(options)
    return exporter


def exportable(
    model: Model,
    section: ModelSection,
    registry: Registry,
    samples: Sequence[ExportSample],
    symbols: dict[str, tuple[str, ...]] | None = None,
    lock: Path | None = None,
) -> Exportable:
    """Returns a model with what an exporter needs; samples get the token features that the model reads."""
    features = {side: features_read(model, section, registry, side) for side in ("encoder", "decoder")}
    filled = [
        ExportSample(_with_features(each.source, features["encoder"]), _with_features(each.target, features["decoder"]))
        for each in samples
    ]
    return Exportable(model, filled, symbols or {}, features, section.length, lock)


def features_read(model: Model, section: ModelSection, registry: Registry, side: str) -> tuple[str, ...]:
    """Returns the names of the token features that the masks and the embedding of one tower read."""
    stack, built = getattr(section, side), getattr(model, side, None)
    if stack is None or not isinstance(built, Tower):
        return ()
    wanted = dict.fromkeys(built.embedding.reads)
    for options in options_within(stack):
        component = registry.part_for_options(type(options)).component
        if issubclass(component, Mask):
            wanted |= dict.fromkeys(component.needs)
    return tuple(wanted)


def _with_features(tokens: TokenBatch | None, wanted: Sequence[str]) -> TokenBatch | None:
    """Returns tokens with exactly these features; missing ones are 0 in the first half and 1 in the second."""
    if tokens is None:
        return None
    length = tokens.ids.shape[1]
    halves = (torch.arange(length) >= (length + 1) // 2).long().expand(tokens.ids.shape)
    return replace(tokens, features={name: tokens.features.get(name, halves).long() for name in wanted})


DESCRIPTION_FILE = "export.json"


class ExportError(KitError):
    """A model could not be exported, or the exported one gives different results; the folder was removed."""


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    folder: Path
    files: Sequence[Path]
    """All files, relative to the folder."""
    checks: Sequence[ExportCheck]
    """The comparisons with the model."""
    compared_on: str
    """Which examples were compared."""


def export(
    run: str | Path | RunDirectory | LoadedRun,
    to: str | Options,
    overrides: Iterable[str] = (),
    *,
    output: str | Path | None = None,
    kit: Kit | None = None,
) -> Exported:
    """Writes a trained model for another inference engine, after a comparison with the model itself.

    to: the name of an exporter, whose options `overrides` change (`quantization=int8`), or its options themselves;
    output: a folder that does not exist; left out, `exports/NAME` in the folder of the run.
    """
    opened = run if isinstance(run, LoadedRun) else load_run(run, kit, device="cpu")
    registry = opened.kit.registry
    exporter = exporter_of(to, registry) if isinstance(to, Options) else exporter_named(to, registry, overrides)
    folder = opened.run.path / "exports" / exporter.name() if output is None else Path(output)
    if folder.exists():
        raise ExportError(f"{folder} is there already\n    remove it, or name another folder with --output")
    if not is_cpu(opened.device):
        opened = replace(opened, model=copy.deepcopy(opened.model).cpu())
    predictor = Predictor(opened)
    samples, compared_on = samples_of(predictor)
    lock = opened.run.lock if opened.run.lock.is_file() else None
    symbols = opened.tokenizers.symbols()
    subject = exportable(opened.model, opened.recipe.model, registry, samples, symbols, lock)
    contract, example = input_contract(predictor, subject)
    subject = replace(subject, samples=[example, *subject.samples])
    with _draft_folder(folder) as draft, _with_locations(opened):
        problems = list(exporter.objections(subject))
        if problems:
            raise RecipeError(problems)
        with explain_os_errors(folder):
            exporter.write(subject, draft)
        checks = list(exporter.verify(subject, draft))
        _require_passed(exporter, checks)
        description = {
            "run": opened.run.label,
            "exporter": exporter.options.model_dump(mode="json"),
            "compared_on": compared_on,
            "checks": [{"what": it.what, "difference": it.difference, "limit": it.limit} for it in checks],
            **contract,
        }
        with explain_os_errors(folder):
            _write_description(opened, draft, description)
        files = sorted(path.relative_to(draft) for path in draft.rglob("*") if path.is_file())
    return Exported(folder, files, checks, compared_on)


@contextmanager
def _draft_folder(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder, which is renamed on success and removed otherwise."""
    with explain_os_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        draft.chmod(0o755)
    try:
        yield draft
        with explain_os_errors(folder):
            os.rename(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _with_locations(opened: LoadedRun) -> Iterator[None]:
    """Adds the lines of the run's recipe to problems."""
    try:
        yield
    except RecipeError as error:
        loaded = load_recipe(opened.run.recipe, opened.kit.registry)
        raise RecipeError([loaded.locate_problem(problem) for problem in error.problems]) from error


def _require_passed(exporter: Exporter, checks: Sequence[ExportCheck]) -> None:
    if not checks:
        raise ExportError(f"the exporter {exporter.name()} compared nothing, so nothing is known of what it wrote")
    failed = [
        f"{check.what}: differs by {check.difference:.2g}, at most {check.limit:.2g} is accepted"
        for check in checks
        if not check.passed
    ]
    if failed:
        raise ExportError("\n    ".join([f"what {exporter.name()} wrote is not the model, and was removed", *failed]))


def _write_description(opened: LoadedRun, folder: Path, description: Mapping[str, Any]) -> None:
    """Writes the recipe, the tokenizers, the names of classes and a description of the export.

    A folder with the weights of a run can be opened as a run, so that their SHA-256 is written beside them.
    """
    run, made = opened.run, RunDirectory(folder)
    if made.weights.is_file():
        write_digest(made)
    shutil.copyfile(run.recipe, folder / run.recipe.name)
    opened.tokenizers.save(folder / run.tokenizer.name)
    if run.labels.is_file():
        shutil.copyfile(run.labels, folder / run.labels.name)
    text = json.dumps(description, indent=2, ensure_ascii=False) + "\n"
    (folder / DESCRIPTION_FILE).write_text(text, encoding="utf-8")
