"""The parts that a recipe trains with: those it names, and the defaults that installed parts say they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.component import Component, Options
from kit.contracts.data import Data
from kit.contracts.metric import Metric
from kit.contracts.objective import Objective, Serves
from kit.contracts.optimizer import Optimizer
from kit.contracts.schedule import Schedule
from kit.contracts.tokenizer import Tokenizer
from kit.data.tokenizing import Tokenizers
from kit.errors import KitError, PluginError
from kit.model.facts import facts_needed
from kit.recipe.sections import Recipe
from kit.recipe.training_section import TokenizerPair, TrainingSection
from kit.registry import Registered, Registry


@dataclass(frozen=True)
class Choices:
    """Makes the parts of one recipe from one registry."""

    recipe: Recipe
    registry: Registry
    folder: Path | None = None
    """Where the recipe lies; its relative paths start there."""

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
        """Where examples come from."""
        if self.recipe.data is None:
            raise KitError(f"the recipe {self.recipe.name} has no data section\n    add data: ...; see kit list data")
        data: Data = self._class(self.recipe.data)(self.recipe.data, self.folder)
        return data

    def tokenizers(self) -> Tokenizers:
        """One for both sides, or one for each; not trained yet."""
        chosen = self.recipe.tokenizer
        if isinstance(chosen, TokenizerPair):
            return Tokenizers(self._tokenizer(chosen.source), self._tokenizer(chosen.target))
        if chosen is None:
            raise KitError(
                f"the recipe {self.recipe.name} has no tokenizer section\n    add tokenizer: ...; see kit list"
            )
        return Tokenizers.one(self._tokenizer(chosen))

    def objective(self, data: Data) -> tuple[Objective, Serves]:
        """What is minimised, and in what form it wants its batches."""
        named, family = self.training.objective, self.recipe.model.family
        component: type[Objective]
        component = objective_for(self.registry, family, data.task) if named is None else self._class(named)
        serves = next((it for it in component.serves if (it.family, it.task) == (family, data.task)), None)
        if serves is None:
            raise KitError(unsuited(component, family, data.task))
        options = _plain(component) if named is None else named
        return component(options, self.training.seed), serves

    def optimizer(self) -> Optimizer:
        """What turns gradients into updates."""
        options = self.training.optimizer or self._default("optimizer")
        optimizer: Optimizer = self._class(options)(options)
        return optimizer

    def schedule(self) -> Schedule:
        """How the rate changes."""
        options = self.training.schedule or self._default("schedule")
        schedule: Schedule = self._class(options)(options)
        return schedule

    def metrics(self) -> dict[str, Metric]:
        """What is measured, by the name of the metric; of two with the same name the second gets a number."""
        made: dict[str, Metric] = {}
        for options in self.training.metrics:
            component = self._class(options)
            names = [component.part_name(), *(f"{component.part_name()}_{number}" for number in range(2, 100))]
            made[next(name for name in names if name not in made)] = component(options)
        return made

    def facts_needed(self) -> frozenset[str]:
        """What the masks of the model want to know of every token, such as its document."""
        return facts_needed(self.recipe.model, self.registry)

    def _tokenizer(self, options: Options) -> Tokenizer:
        tokenizer: Tokenizer = self._class(options)(options)
        return tokenizer

    def _default(self, kind: str) -> Options:
        found = self.registry.default(kind)
        if found is None:
            raise KitError(f"the recipe {self.recipe.name} names no {kind}, and no default is installed")
        return _plain(found.component)

    def _class(self, options: Options) -> type[Any]:
        """The class of a part; a slot holds parts of one kind only, so its caller knows what it is."""
        return self.registry.of_options(type(options)).component


def objective_for(registry: Registry, family: str, task: str) -> type[Objective]:
    """The installed objective that says it is the one for this family and task."""
    found = list(_defaults(registry, family, task))
    if len(found) > 1:
        names = " and ".join(f"{part.name} ({part.origin})" for part in found)
        raise PluginError(f"more than one objective says it is the one for {family} models and {task} data: {names}")
    if not found:
        raise KitError(
            f"no installed objective trains a model of the family {family} on {_described(task)}\n"
            "    kit list objective shows what there is"
        )
    component = found[0].component
    assert issubclass(component, Objective)
    return component


def unsuited(component: type[Objective], family: str, task: str) -> str:
    """Why an objective cannot train this family on this task, in words."""
    wanted = "; ".join(f"{it.family} on {_described(it.task)}" for it in component.serves)
    return f"the objective {component.part_name()} cannot train {family} on {_described(task)}; it trains {wanted}"


def _defaults(registry: Registry, family: str, task: str) -> Iterator[Registered]:
    for part in registry.components("objective"):
        serves: tuple[Serves, ...] = getattr(part.component, "serves", ())
        if any(it.default and (it.family, it.task) == (family, task) for it in serves):
            yield part


def _plain(component: type[Component]) -> Options:
    return component.options_type.model_validate({"use": component.part_name()})


def _described(task: str) -> str:
    return {"pairs": "pairs of texts", "text": "plain text", "labelled": "labelled texts"}.get(task, task)
