"""Preparing a training: the parts of its recipe, the data, the tokenizers, the batches and the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kit.contracts.data import Data, Split
from kit.contracts.metric import Metric
from kit.contracts.objective import Objective
from kit.contracts.part import Part
from kit.data.rows import ExampleRows
from kit.data.tokenizers import Tokenizers
from kit.errors import KitError
from kit.generation.generator import SequenceGenerator
from kit.kernels.linear import use_fast_linear
from kit.kernels.rng_state import seed_all
from kit.model.families import Model
from kit.plugin.component import Options
from kit.recipe.parts import RecipeParts
from kit.recipe.sections import Recipe, TrainingSection, Vocabularies
from kit.runs.lock import Lock
from kit.runs.provenance import plugin_sources, used_parts
from kit.runs.run_directory import RunDirectory, write_labels
from kit.training.batch_source import BatchSource, BatchSources
from kit.training.evaluator import Evaluator

if TYPE_CHECKING:
    from kit.kit import Kit


ANSWER_ROOM = 2
"""The maximum length of an answer in validation, as a multiple of the longest target in the training data."""


@dataclass(frozen=True)
class PreparedTraining:
    """What a training consists of before its first step."""

    parts: RecipeParts
    data: Data
    tokenizers: Tokenizers
    objective: Objective
    metrics: Mapping[str, Metric]
    model: Model
    sources: BatchSources
    train_source: BatchSource

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.parts.recipe

    @property
    def training(self) -> TrainingSection:
        """Its training section."""
        return self.parts.training

    def evaluator(self, split: Split, max_examples: int | None = None) -> Evaluator:
        """Evaluates a model on a split with the recipe's search, or greedily on `max_examples` of its examples."""
        target = self.tokenizers.target
        generates = self.objective.per_token and any(metric.reads_answers for metric in self.metrics.values())
        generator = self.generator(self.recipe.search if max_examples is None else None) if generates else None
        return Evaluator(
            self.objective,
            self.metrics,
            self.sources.held_out(split, self.training.batch_tokens, max_examples),
            self.data.open(split),
            target,
            generator,
            length=self.recipe.model.length,
            longest=generator.search.options.length
            if generator is not None and max_examples is None
            else self._longest_answer(),
            labels=self.data.labels(),
        )

    def generator(self, search: Options | None) -> SequenceGenerator:
        """Generates answers by a search with its constraints, or by the installed default."""
        target = self.tokenizers.target
        return SequenceGenerator.build(search, self.parts.registry, target.encode, target.size)

    def lock(self, kit: Kit) -> Lock:
        """The lock of a training with these parts and data, in this installation."""
        data = {self.data.name(): self.data.fingerprint(), "tokenizers": self.tokenizers.fingerprint()}
        parts = used_parts(self.recipe, kit.registry, [self.objective.options])
        return Lock.current(plugin_sources(kit.plugins), seed=self.training.seed, data=data, parts=parts)

    def write_vocabularies(self, run: RunDirectory) -> None:
        """Write the tokenizers and the names of the classes into a new run."""
        self.tokenizers.save(run.tokenizer)
        write_labels(run, self.data.labels())

    def with_new_model(self, kit: Kit) -> PreparedTraining:
        """The same with a newly built, untrained model."""
        return replace(self, model=_build_model(self.parts, kit, self.data, self.tokenizers))

    def _longest_answer(self) -> int:
        rows = self.train_source.rows
        if isinstance(rows, ExampleRows) and rows.encoded.target is not None:
            return ANSWER_ROOM * int(rows.encoded.target.lengths.max(initial=1)) + 1
        return self.recipe.model.length


def prepare_training(
    recipe: Recipe, kit: Kit, folder: Path | None = None, saved_tokenizer: Path | None = None, cache: Path | None = None
) -> PreparedTraining:
    """Prepare a training; tokenizers are trained, or loaded from `saved_tokenizer` where they were saved."""
    parts = RecipeParts(recipe, kit.registry, folder)
    training, data = parts.training, parts.data()
    objective, supports = parts.objective(data)
    tokenizers = parts.tokenizers()
    data.prepare()
    if saved_tokenizer is not None and any(saved_tokenizer.rglob("tokenizer.json")):
        tokenizers.load(saved_tokenizer)
    else:
        tokenizers.train(data)
    split_documents = "document" in parts.features_needed()
    sources = BatchSources(
        data, tokenizers, objective, supports.row_format, recipe.model.length, split_documents, cache
    )
    train_source = sources.training(training.batch_tokens, training.seed)
    seed_all(training.seed)
    model = _build_model(parts, kit, data, tokenizers)
    prepared = PreparedTraining(parts, data, tokenizers, objective, parts.metrics(), model, sources, train_source)
    if recipe.search is not None:
        prepared.generator(recipe.search)  # an error in the search shows now, not after the training
    return prepared


def init_pretrained(model: Model) -> None:
    """Load pretrained initial values, such as embeddings, into the parts that have any; skipped when resuming."""
    for module in model.modules():
        if isinstance(module, Part):
            module.init_pretrained()


def _build_model(parts: RecipeParts, kit: Kit, data: Data, tokenizers: Tokenizers) -> Model:
    recipe = parts.recipe
    sizes = Vocabularies(source=tokenizers.source.size, target=tokenizers.target.size)
    given = recipe.model.vocabulary
    wanted = Vocabularies(source=given, target=given) if isinstance(given, int) else given
    if wanted is not None and wanted != sizes:
        raise KitError(
            f"model.vocabulary says {wanted.source} source and {wanted.target} target tokens, and the tokenizer has "
            f"{sizes.source} and {sizes.target}\n    leave model.vocabulary out, and the tokenizer decides"
        )
    model = kit.build(recipe, sizes, tokenizers.symbols())
    use_fast_linear(model)
    labels = data.labels()
    classes = getattr(model.head.options, "classes", None)
    if labels and classes is not None and classes != len(labels):
        known = ", ".join(labels[:20])
        raise KitError(f"model.head.classes is {classes}, and the data has {len(labels)} classes: {known}")
    return model
