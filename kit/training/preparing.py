"""Everything a training needs, made ready from a recipe: data, tokenizers, model, objective, batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kit.component import Options
from kit.contracts.data import Data, Split
from kit.contracts.metric import Metric
from kit.contracts.objective import Objective
from kit.contracts.part import Part
from kit.data.rows import ExampleRows
from kit.data.tokenizing import Tokenizers
from kit.decoding.building import Writer
from kit.errors import KitError
from kit.matrices import speed_up
from kit.model.families import Model
from kit.recipe.sections import Recipe, Vocabularies
from kit.recipe.training_section import TrainingSection
from kit.training import randomness
from kit.training.choosing import Choices
from kit.training.evaluation import Evaluator
from kit.training.feeding import Feed, Feeds

if TYPE_CHECKING:
    from kit.kit import Kit

ANSWER_ROOM = 2
"""An answer may be so many times as long as the longest in the training data before it is cut off."""


@dataclass(frozen=True)
class Prepared:
    """A training that could start now."""

    choices: Choices
    data: Data
    tokenizers: Tokenizers
    objective: Objective
    metrics: Mapping[str, Metric]
    model: Model
    feeds: Feeds
    feed: Feed
    """What is trained on."""

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.choices.recipe

    @property
    def training(self) -> TrainingSection:
        """Its training section."""
        return self.choices.training

    def evaluator(self, split: Split, most: int | None = None) -> Evaluator:
        """Measures a model on a split with the recipe's search, or quickly on so many of its examples."""
        target = self.tokenizers.target
        writes = self.objective.per_token and any(metric.reads_answers for metric in self.metrics.values())
        writer = self.writer(self.recipe.search if most is None else None) if writes else None
        return Evaluator(
            self.objective,
            self.metrics,
            self.feeds.held_out(split, self.training.batch_tokens, most),
            self.data.open(split),
            target,
            writer,
            length=self.recipe.model.length,
            longest=writer.search.options.length if writer is not None and most is None else self._longest_answer(),
            labels=self.data.labels(),
        )

    def writer(self, search: Options | None) -> Writer:
        """What writes answers: a search with its constraints, or the installed default."""
        target = self.tokenizers.target
        return Writer.build(search, self.choices.registry, target.encode, target.size)

    def with_new_model(self, kit: Kit) -> Prepared:
        """The same with a model of its own, as it would be before any training."""
        return replace(self, model=_model(self.choices, kit, self.data, self.tokenizers))

    def _longest_answer(self) -> int:
        rows = self.feed.rows
        if isinstance(rows, ExampleRows) and rows.encoded.target is not None:
            return ANSWER_ROOM * int(rows.encoded.target.lengths.max(initial=1)) + 1
        return self.recipe.model.length


def prepare(
    recipe: Recipe, kit: Kit, folder: Path | None = None, saved_tokenizer: Path | None = None, cache: Path | None = None
) -> Prepared:
    """Make everything ready; tokenizers are trained, or loaded from where they were saved."""
    choices = Choices(recipe, kit.registry, folder)
    training, data = choices.training, choices.data()
    objective, serves = choices.objective(data)
    tokenizers = choices.tokenizers()
    data.prepare()
    if saved_tokenizer is not None and any(saved_tokenizer.rglob("tokenizer.json")):
        tokenizers.load(saved_tokenizer)
    else:
        tokenizers.train(data)
    apart = "document" in choices.facts_needed()
    feeds = Feeds(data, tokenizers, objective, serves.form, recipe.model.length, apart, cache)
    feed = feeds.training(training.batch_tokens, training.seed)
    randomness.begin(training.seed)
    model = _model(choices, kit, data, tokenizers)
    prepared = Prepared(choices, data, tokenizers, objective, choices.metrics(), model, feeds, feed)
    if recipe.search is not None:
        prepared.writer(recipe.search)  # what is wrong with it shows now, not after the training
    return prepared


def start_parts(model: Model) -> None:
    """Let parts fetch what training begins from; not for a model whose weights are loaded."""
    for module in model.modules():
        if isinstance(module, Part):
            module.prepare()


def _model(choices: Choices, kit: Kit, data: Data, tokenizers: Tokenizers) -> Model:
    recipe = choices.recipe
    sizes = Vocabularies(source=tokenizers.source.size, target=tokenizers.target.size)
    given = recipe.model.vocabulary
    wanted = Vocabularies(source=given, target=given) if isinstance(given, int) else given
    if wanted is not None and wanted != sizes:
        raise KitError(
            f"model.vocabulary says {wanted.source} source and {wanted.target} target tokens, and the tokenizer has "
            f"{sizes.source} and {sizes.target}\n    leave model.vocabulary out, and the tokenizer decides"
        )
    model = kit.build(recipe, sizes, tokenizers.symbols())
    speed_up(model)
    labels = data.labels()
    classes = getattr(model.head.options, "classes", None)
    if labels and classes is not None and classes != len(labels):
        known = ", ".join(labels[:20])
        raise KitError(f"model.head.classes is {classes}, and the data has {len(labels)} classes: {known}")
    return model
