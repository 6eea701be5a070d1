"""Measures the model of a run on held-out examples: its own, or others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kit.component import Options
from kit.contracts.data import Data, Split
from kit.contracts.metric import Metric
from kit.decoding.building import Writer
from kit.errors import KitError
from kit.evaluating.given import GivenData
from kit.opening import OpenedRun
from kit.predicting.searching import chosen_search
from kit.recipe.load import load_recipe
from kit.registry import Registry
from kit.training.choosing import Choices
from kit.training.evaluation import Evaluation, Evaluator
from kit.training.feeding import Feeds

_OVERRIDE = re.compile(r"^data[.=\[]")


@dataclass(frozen=True)
class Questions:
    """What a model is measured on."""

    data: Data
    split: Split
    name: str
    """What reports call it: the split, or the file."""


@dataclass(frozen=True)
class Measured:
    """What a run came to."""

    run: OpenedRun
    evaluation: Evaluation
    metrics: Mapping[str, Metric]
    left_out: int
    """Examples that are longer than the model is made for, which were not measured."""


def questions(run: OpenedRun, given: Sequence[str] = (), split: str | None = None) -> Questions:
    """The run's own data, or what is given: files, or changes to its data such as `data.longest=40`.

    split: train, validation or test; left out, test, or validation where there is no test.
    """
    changes = [text for text in given if _OVERRIDE.match(text)]
    files = [Path(text) for text in given if not _OVERRIDE.match(text)]
    if files and (changes or split):
        raise KitError("files have no splits, and nothing to change; give files, or changes to the run's data")
    if files:
        given_data = GivenData([_file(path) for path in files], run.choices.data().task, run.labels)
        return Questions(given_data, "test", files[-1].name.partition(".")[0])
    recipe = load_recipe(run.recipe, run.kit.registry, changes).recipe if changes else run.recipe
    data = replace(run.choices, recipe=recipe).data()
    data.prepare()
    there = data.splits()
    if split is not None and split not in there:
        raise KitError(f"the data of {run.run.label} has no split {split!r}; it has {', '.join(there)}")
    chosen = next(
        name for name in ("test", "validation", "train") if name == split or (split is None and name in there)
    )
    return Questions(data, chosen, f"{chosen}-changed" if changes else chosen)


def named_metrics(run: OpenedRun, names: Sequence[str] = ()) -> dict[str, Metric]:
    """Those of the recipe, or those that are named, with the recipe's options where it has them."""
    own = run.choices.metrics()
    return {name: own[name] if name in own else _metric(name, run.kit.registry) for name in names} if names else own


def measure(
    run: OpenedRun, asked: Questions, metrics: Mapping[str, Metric], search: str | Options | None = None
) -> Measured:
    """Run the model over the examples."""
    evaluator = _evaluator(run, run.choices, asked, metrics, search)
    return Measured(run, evaluator.measure(run.model), metrics, evaluator.feed.left_out)


def _evaluator(
    run: OpenedRun, choices: Choices, asked: Questions, metrics: Mapping[str, Metric], search: str | Options | None
) -> Evaluator:
    objective, serves = choices.objective(asked.data)
    length, target = run.recipe.model.length, run.tokenizers.target
    apart = "document" in choices.facts_needed()
    feeds = Feeds(asked.data, run.tokenizers, objective, serves.form, length, apart)
    writes = objective.per_token and any(metric.reads_answers for metric in metrics.values())
    writer = None
    if writes:
        options = chosen_search(run.recipe, run.kit.registry, search, 1)
        writer = Writer.build(options, run.kit.registry, target.encode, target.size)
    return Evaluator(
        objective,
        metrics,
        feeds.held_out(asked.split, choices.training.batch_tokens),
        asked.data.open(asked.split),
        target,
        writer,
        length=length,
        longest=length if writer is None else writer.search.options.length,
        labels=run.labels,
    )


def _metric(name: str, registry: Registry) -> Metric:
    component: Any = registry.find("metric", name).component
    metric: Metric = component(component.options_type.model_validate({"use": component.part_name()}))
    return metric


def _file(path: Path) -> Path:
    if not path.is_file():
        raise KitError(f"there is no file {path}; data is given as files, or as a change such as data.longest=40")
    return path
