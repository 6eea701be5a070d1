"""Evaluates a run with metrics, on a split of its data, on changed data or on files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kit.contracts.data import Data, Example, Split, Task
from kit.contracts.metric import Metric
from kit.data.cache_folder import digest_of
from kit.data.lines import Lines, ParsedLines
from kit.data.paths import DataError
from kit.errors import KitError
from kit.generation.generator import SequenceGenerator
from kit.plugin.component import Options
from kit.plugin.registry import Registry
from kit.prediction.load_run import LoadedRun
from kit.prediction.predictor import search_options
from kit.recipe.loading import load_recipe
from kit.recipe.parts import RecipeParts
from kit.training.batch_source import BatchSources
from kit.training.evaluator import Evaluation, Evaluator

FILE_FORMATS = {
    "pairs": "two files, of sources and of targets line by line, or one with a tab between source and target",
    "labelled": "a file with a label, a tab and a text a line",
    "text": "a file of text",
}


class FileData(Data):
    """Reads examples from files as one split, `test`.

    Pairs: two files, or one of source, tab, target and, after more tabs, other targets that are right too. Labelled:
    label, tab, text. Text: a document a file.
    """

    def __init__(self, files: Sequence[Path], task: Task, labels: Sequence[str]) -> None:
        if len(files) not in ((1, 2) if task == "pairs" else (1,)):
            raise KitError(f"found {len(files)} files; wanted {FILE_FORMATS[task]}")
        self.paths = list(files)
        self._task: Task = task
        self._labels = tuple(labels)

    @property
    def task(self) -> Task:
        """The task of the run."""
        return self._task

    def splits(self) -> tuple[Split, ...]:
        """The single split."""
        return ("test",)

    def labels(self) -> tuple[str, ...]:
        """The classes of the model."""
        return self._labels

    def open(self, split: Split) -> Sequence[Example]:
        """Reads the examples; all splits are the same."""
        files = [Lines(path) for path in self.paths]
        if self.task == "text":
            return [Example(files[0].text(files[0].start, files[0].size))]
        if len(files) == 1:
            return ParsedLines(files[0], _pair if self.task == "pairs" else _labelled)
        sources, targets = files
        if len(sources) != len(targets):
            raise DataError(f"it has {len(sources)} lines and {targets.path} has {len(targets)}", path=sources.path)
        return [Example(source, target) for source, target in zip(sources, targets, strict=True)]

    def fingerprint(self) -> str:
        """Hashes the files, the task and the labels."""
        return digest_of([self.task, self._labels, [Lines(path).digest for path in self.paths]])


def _pair(line: str) -> Example:
    source, *targets = line.split("\t")
    if not targets:
        raise ValueError("source, tab and target were wanted, found no tab")
    return Example(source, targets[0], references=tuple(targets))


def _labelled(line: str) -> Example:
    label, tab, text = line.partition("\t")
    if not tab:
        raise ValueError("label, tab and text were wanted, found no tab")
    return Example(text, label=label)


_OVERRIDE = re.compile(r"^data[.=\[]")


@dataclass(frozen=True)
class EvalSource:
    """The examples that a model is evaluated on."""

    data: Data
    split: Split
    name: str
    """Its name in reports: the split, or the file."""


@dataclass(frozen=True)
class EvaluatedRun:
    """The result of an evaluation."""

    run: LoadedRun
    evaluation: Evaluation
    metrics: Mapping[str, Metric]
    left_out: int
    """The number of examples longer than the model allows, which are left out."""


def eval_source(run: LoadedRun, given: Sequence[str] = (), split: str | None = None) -> EvalSource:
    """Returns the examples of the run's own data, or of what is given: files, or overrides (`data.max_length=40`).

    split: train, validation or test; left out, test, or validation where there is no test.
    """
    changes = [text for text in given if _OVERRIDE.match(text)]
    files = [Path(text) for text in given if not _OVERRIDE.match(text)]
    if files and (changes or split):
        raise KitError("files have no splits, and nothing to change; give files, or changes to the run's data")
    if files:
        file_data = FileData([_file(path) for path in files], run.parts.data().task, run.labels)
        return EvalSource(file_data, "test", files[-1].name.partition(".")[0])
    recipe = load_recipe(run.recipe, run.kit.registry, changes).recipe if changes else run.recipe
    data = replace(run.parts, recipe=recipe).data()
    data.prepare()
    splits = data.splits()
    if split is not None and split not in splits:
        raise KitError(f"the data of {run.run.label} has no split {split!r}; it has {', '.join(splits)}")
    chosen = next(
        name for name in ("test", "validation", "train") if name == split or (split is None and name in splits)
    )
    return EvalSource(data, chosen, f"{chosen}-changed" if changes else chosen)


def named_metrics(run: LoadedRun, names: Sequence[str] = ()) -> dict[str, Metric]:
    """Returns the metrics of the recipe, or those that are named, with the options of the recipe where it has them."""
    own = run.parts.metrics()
    return {name: own[name] if name in own else _metric(name, run.kit.registry) for name in names} if names else own


def evaluate_run(
    run: LoadedRun, source: EvalSource, metrics: Mapping[str, Metric], search: str | Options | None = None
) -> EvaluatedRun:
    """Evaluates a run on examples, with metrics and a search."""
    evaluator = _evaluator(run, run.parts, source, metrics, search)
    return EvaluatedRun(run, evaluator.evaluate(run.model), metrics, evaluator.source.left_out)


def _evaluator(
    run: LoadedRun, parts: RecipeParts, source: EvalSource, metrics: Mapping[str, Metric], search: str | Options | None
) -> Evaluator:
    objective, supports = parts.objective(source.data)
    length, target = run.recipe.model.length, run.tokenizers.target
    split_documents = "document" in parts.features_needed()
    sources = BatchSources(source.data, run.tokenizers, objective, supports.row_format, length, split_documents)
    generates = objective.per_token and any(metric.reads_answers for metric in metrics.values())
    generator = None
    if generates:
        options = search_options(run.recipe, run.kit.registry, search, 1)
        generator = SequenceGenerator.build(options, run.kit.registry, target.encode, target.size)
    return Evaluator(
        objective,
        metrics,
        sources.held_out(source.split, parts.training.batch_tokens),
        source.data.open(source.split),
        target,
        generator,
        length=length,
        longest=length if generator is None else generator.search.options.length,
        labels=run.labels,
    )


def _metric(name: str, registry: Registry) -> Metric:
    component: Any = registry.find("metric", name).component
    metric: Metric = component(component.options_type.model_validate({"use": component.name()}))
    return metric


def _file(path: Path) -> Path:
    if not path.is_file():
        raise KitError(f"there is no file {path}; data is given as files, or as a change such as data.max_length=40")
    return path
