"""The components of a recipe outside the model: a factory of data, tokenizers, objective, optimizer and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from torch import Tensor

from kit.contracts.data import Data
from kit.contracts.mask import Mask
from kit.contracts.metric import Metric
from kit.contracts.objective import Objective, Supports
from kit.contracts.optimizer import Optimizer
from kit.contracts.schedule import Schedule
from kit.contracts.tokenizer import Tokenizer
from kit.data.tokenizers import Tokenizers
from kit.errors import KitError, PluginError
from kit.plugin.component import Component, Options
from kit.plugin.registry import Registered, Registry
from kit.recipe.sections import ModelSection, Recipe, TokenizerPair, TrainingSection
from kit.sequence.batch_layout import TokenBatch


def features_needed(section: ModelSection, registry: Registry) -> frozenset[str]:
    """The token features that the masks of a model need, such as the document of each token."""
    needs: set[str] = set()
    for options in options_within(section):
        component = registry.part_for_options(type(options)).component
        if issubclass(component, Mask):
            needs |= set(component.needs)
    return frozenset(needs)


def options_within(model: BaseModel) -> Iterator[Options]:
    """All component options inside a section, at any depth."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, Options):
                yield item
            if isinstance(item, BaseModel):
                yield from options_within(item)


def tokens_with_features(ids: Tensor, features: Iterable[str]) -> TokenBatch:
    """A token batch with all features 0, for checks of shapes."""
    return TokenBatch(ids, features={name: ids.new_zeros(ids.shape) for name in features}, right_padded=True)


@dataclass(frozen=True)
class RecipeParts:
    """Builds the components of a recipe from a registry."""

    recipe: Recipe
    registry: Registry
    folder: Path | None = None
    """The folder of the recipe, the base of its relative paths."""

    @property
    def training(self) -> TrainingSection:
        """The training section."""
        if self.recipe.training is None:
            raise KitError(
                f"the recipe {self.recipe.name} has no training section\n"
                "    add training: {steps: 1000, batch_tokens: 4096}"
            )
        return self.recipe.training

    def data(self) -> Data:
        """The data."""
        if self.recipe.data is None:
            raise KitError(f"the recipe {self.recipe.name} has no data section\n    add data: ...; see kit list data")
        data: Data = self._class(self.recipe.data)(self.recipe.data, self.folder)
        return data

    def tokenizers(self) -> Tokenizers:
        """The tokenizers, one shared or one for each side; not trained yet."""
        chosen = self.recipe.tokenizer
        if isinstance(chosen, TokenizerPair):
            return Tokenizers(self._tokenizer(chosen.source), self._tokenizer(chosen.target))
        if chosen is None:
            raise KitError(
                f"the recipe {self.recipe.name} has no tokenizer section\n    add tokenizer: ...; see kit list"
            )
        return Tokenizers.one(self._tokenizer(chosen))

    def objective(self, data: Data) -> tuple[Objective, Supports]:
        """The objective, and the row format of its batches."""
        named, family = self.training.objective, self.recipe.model.family
        component: type[Objective]
        component = objective_for(self.registry, family, data.task) if named is None else self._class(named)
        supports = next((it for it in component.supports if (it.family, it.task) == (family, data.task)), None)
        if supports is None:
            raise KitError(unsupported_message(component, family, data.task))
        options = _default_options(component) if named is None else named
        return component(options, self.training.seed), supports

    def optimizer(self) -> Optimizer:
        """The optimizer."""
        options = self.training.optimizer or self._default("optimizer")
        optimizer: Optimizer = self._class(options)(options)
        return optimizer

    def schedule(self) -> Schedule:
        """The learning rate schedule."""
        options = self.training.schedule or self._default("schedule")
        schedule: Schedule = self._class(options)(options)
        return schedule

    def metrics(self) -> dict[str, Metric]:
        """The metrics by name; of two with one name the second gets a number."""
        made: dict[str, Metric] = {}
        for options in self.training.metrics:
            component = self._class(options)
            names = [component.name(), *(f"{component.name()}_{number}" for number in range(2, 100))]
            made[next(name for name in names if name not in made)] = component(options)
        return made

    def features_needed(self) -> frozenset[str]:
        """The token features that the masks of the model need."""
        return features_needed(self.recipe.model, self.registry)

    def _tokenizer(self, options: Options) -> Tokenizer:
        tokenizer: Tokenizer = self._class(options)(options)
        return tokenizer

    def _default(self, kind: str) -> Options:
        found = self.registry.default(kind)
        if found is None:
            raise KitError(f"the recipe {self.recipe.name} names no {kind}, and no default is installed")
        return _default_options(found.component)

    def _class(self, options: Options) -> type[Any]:
        """The component class of options; a slot holds one kind, so that the caller knows the contract."""
        return self.registry.part_for_options(type(options)).component


def objective_for(registry: Registry, family: str, task: str) -> type[Objective]:
    """The installed default objective of this family and task."""
    found = list(_default_objectives(registry, family, task))
    if len(found) > 1:
        names = " and ".join(f"{part.name} ({part.origin})" for part in found)
        raise PluginError(f"more than one objective says it is the one for {family} models and {task} data: {names}")
    if not found:
        raise KitError(
            f"no installed objective trains a model of the family {family} on {_task_description(task)}\n"
            "    kit list objective shows what there is"
        )
    component = found[0].component
    assert issubclass(component, Objective)
    return component


def unsupported_message(component: type[Objective], family: str, task: str) -> str:
    """The message for an objective that does not support this family and task."""
    wanted = "; ".join(f"{it.family} on {_task_description(it.task)}" for it in component.supports)
    return f"the objective {component.name()} cannot train {family} on {_task_description(task)}; it trains {wanted}"


def _default_objectives(registry: Registry, family: str, task: str) -> Iterator[Registered]:
    for part in registry.components("objective"):
        supports: tuple[Supports, ...] = getattr(part.component, "supports", ())
        if any(it.default and (it.family, it.task) == (family, task) for it in supports):
            yield part


def _default_options(component: type[Component]) -> Options:
    return component.options_type.model_validate({"use": component.name()})


def _task_description(task: str) -> str:
    return {"pairs": "pairs of texts", "text": "plain text", "labelled": "labelled texts"}.get(task, task)
