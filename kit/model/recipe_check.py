"""Checks of a whole recipe: its model by a forward pass on the meta device, its training and its search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import torch

from kit.contracts.data import Data
from kit.contracts.embedding import Head
from kit.contracts.objective import FEATURES_OF_ROW_FORMAT, Objective, RowFormat
from kit.contracts.search import Search
from kit.errors import KitError, Problem, RecipeError
from kit.model.builder import ModelBuilder, meta_init
from kit.model.families import EncoderDecoder
from kit.plugin.component import Options
from kit.plugin.registry import Registry
from kit.recipe.loading import load_recipe
from kit.recipe.parts import RecipeParts, features_needed, objective_for, tokens_with_features, unsupported_message
from kit.recipe.sections import Recipe, TokenizerPair, TrainingSection

_WHERE = ("search",)


def search_problems(recipe: Recipe, registry: Registry) -> Iterator[Problem]:
    """Problems of the search: the model must be generative, and the search must not need a draft model."""
    if recipe.search is None:
        return
    component = registry.part_for_options(type(recipe.search)).component
    head = None if recipe.model.head is None else registry.part_for_options(type(recipe.model.head)).component
    whole = head is not None and issubclass(head, Head) and not head.per_token
    if recipe.model.family == "encoder" or whole:
        found = "a model of the family encoder" if recipe.model.family == "encoder" else "a model of whole sequences"
        yield Problem(f"{found} generates nothing, so there is nothing to search for", _WHERE, hint="leave search out")
    elif issubclass(component, Search) and component.needs_draft:
        yield Problem(
            f"the search {component.name()} needs a second run, which a recipe cannot count on",
            _WHERE,
            hint=f"name another here, and use this one afterwards: kit predict RUN --search {component.name()} "
            "--draft RUN",
        )


_DEFAULTS = ("optimizer", "schedule")
_PRECISION = ("training", "precision")


def training_problems(recipe: Recipe, registry: Registry) -> Iterator[Problem]:
    """Problems of the training section, if there is one, and of the data and tokenizer it needs."""
    training = recipe.training
    if training is None:
        return
    parts = RecipeParts(recipe, registry)
    for name in ("data", "tokenizer"):
        if getattr(recipe, name) is None:
            hint = f"add {name}: ...; kit list {name} shows what there is"
            yield Problem(f"a recipe that is trained needs this key: {name}", (), hint=hint)
    yield from _defaults(training, registry)
    yield from _schedule(parts)
    yield from _metrics(parts)
    yield from _tokenizers(recipe)
    yield from _devices(training)
    yield from _tensor_parallel(parts)
    if recipe.data is not None:
        yield from _objective(parts, parts.data())


def _defaults(training: TrainingSection, registry: Registry) -> Iterator[Problem]:
    for kind in _DEFAULTS:
        if getattr(training, kind) is None and registry.default(kind) is None:
            yield Problem(f"no {kind} is named and no default is installed", ("training",), hint=f"write {kind}: ...")


def _devices(training: TrainingSection) -> Iterator[Problem]:
    if training.strategy == "fsdp" and training.precision == "float16":
        hint = "write bfloat16, or strategy: ddp"
        yield Problem("with strategy: fsdp the loss cannot be scaled for float16", _PRECISION, hint=hint)
    if training.accelerator == "mps" and training.devices * training.nodes > 1:
        yield Problem("mps computes in one process", ("training", "devices"), hint="write devices: 1")


def _tensor_parallel(parts: RecipeParts) -> Iterator[Problem]:
    training, where = parts.training, ("training", "tensor_parallel")
    tensor, devices = training.tensor_parallel, training.devices
    if tensor == 1:
        return
    if training.strategy != "fsdp":
        found = f"the strategy is {training.strategy}, which has every layer whole in each process"
        yield Problem(f"{tensor} processes are to share each layer, and {found}", where, hint="write strategy: fsdp")
    if devices % tensor:
        fitting = [number for number in range(1, devices + 1) if devices % number == 0]
        hint = f"write tensor_parallel: {' or '.join(map(str, fitting))}, or devices: {-(-devices // tensor) * tensor}"
        yield Problem(
            f"{tensor} processes of one node are to share each layer, and that does not divide its {devices} devices",
            where,
            hint=hint,
        )
    if training.optimizer is not None or parts.registry.default("optimizer") is not None:
        optimizer = parts.optimizer()
        if not optimizer.elementwise:
            yield Problem(
                f"the optimizer {optimizer.name()} looks at whole matrices, and with tensor_parallel: {tensor} "
                "no process has them",
                where,
                hint="write tensor_parallel: 1, or choose an optimizer that updates number by number, such as adamw",
            )


def _schedule(parts: RecipeParts) -> Iterator[Problem]:
    if parts.training.schedule is not None:
        for objection in parts.schedule().objections(parts.training.steps):
            yield Problem(objection, ("training", "schedule"), hint="change the schedule, or training.steps")


def _metrics(parts: RecipeParts) -> Iterator[Problem]:
    named, metrics = parts.training.metric, parts.metrics()
    if named != "loss" and named not in metrics:
        known = ["loss", *metrics]
        near = get_close_matches(named, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"wanted {' or '.join(known)}; or add it to training.metrics"
        yield Problem(f"no metric of this recipe is called {named!r}", ("training", "metric"), hint=hint)


def _tokenizers(recipe: Recipe) -> Iterator[Problem]:
    if not isinstance(recipe.tokenizer, TokenizerPair):
        return
    family, tie = recipe.model.family, recipe.model.tie
    if family != "encoder-decoder":
        message = f"a model of the family {family} reads one sequence, with one tokenizer; found source and target"
        yield Problem(message, ("tokenizer",), hint="name one tokenizer")
    elif tie in ("inputs", "all"):
        yield Problem(
            f"tie: {tie} makes source and target share one table, and they have a tokenizer each",
            ("model", "tie"),
            hint="write tie: output, or one tokenizer for both",
        )


def _objective(parts: RecipeParts, data: Data) -> Iterator[Problem]:
    family, named = parts.recipe.model.family, parts.training.objective
    where = ("training", "objective") if named is not None else ("training",)
    try:
        component = _class(parts, named) if named is not None else objective_for(parts.registry, family, data.task)
    except KitError as error:
        yield Problem(str(error), where)
        return
    supports = next((it for it in component.supports if (it.family, it.task) == (family, data.task)), None)
    if supports is None:
        hint = "leave objective out, and one that suits is taken"
        yield Problem(unsupported_message(component, family, data.task), where, hint=hint)
        return
    yield from _head(parts, component)
    yield from _features(parts, supports.row_format, component.brings)


def _head(parts: RecipeParts, component: type[Objective]) -> Iterator[Problem]:
    named = parts.recipe.model.head
    default = parts.registry.default("head")
    head = parts.registry.part_for_options(type(named)).component if named else default.component if default else None
    if head is None or not issubclass(head, Head) or head.per_token == component.per_token:
        return
    wanted = "logits for every token" if component.per_token else "logits for each whole sequence"
    yield Problem(
        f"the objective {component.name()} wants {wanted}, and the head {head.name()} gives something else",
        ("model", "head") if named is not None else ("model",),
        hint="name another head; kit list head shows them",
    )


def _features(parts: RecipeParts, row_format: RowFormat, brought: frozenset[str]) -> Iterator[Problem]:
    for feature in sorted(parts.features_needed() - FEATURES_OF_ROW_FORMAT[row_format] - brought):
        yield Problem(
            f"a mask of this model wants to know the {feature} of every token, "
            f"which batches of the format {row_format} do not carry",
            ("model",),
            hint="leave that mask out, or choose data or an objective that brings it",
        )


def _class(parts: RecipeParts, options: Options) -> type[Objective]:
    component = parts.registry.part_for_options(type(options)).component
    assert issubclass(component, Objective)
    return component


RecipeSource: TypeAlias = Path | str | Mapping[str, Any] | Recipe

FORWARD_LENGTH = 8


def checked_recipe(source: RecipeSource, registry: Registry, overrides: Iterable[str] = ()) -> Recipe:
    """Load and validate a recipe; raises RecipeError with every problem and its line."""
    loaded = load_recipe(source, registry, overrides)
    builder = ModelBuilder(registry)
    problems = list(builder.check(loaded.recipe.model)) or list(_meta_forward(loaded.recipe, builder))
    problems += training_problems(loaded.recipe, registry)
    problems += search_problems(loaded.recipe, registry)
    if problems:
        raise RecipeError([loaded.locate_problem(problem) for problem in problems])
    return loaded.recipe


def _meta_forward(recipe: Recipe, builder: ModelBuilder) -> Iterable[Problem]:
    """Problems of one forward pass on the meta device, which finds what checks missed."""
    try:
        with meta_init(), torch.no_grad():
            model = builder.model(recipe.model, checked=True)
            ids = torch.zeros(2, min(FORWARD_LENGTH, recipe.model.length), dtype=torch.long)
            text = tokens_with_features(ids, features_needed(recipe.model, builder.registry))
            if isinstance(model, EncoderDecoder):
                model(text, text)
            else:
                model(text)
    except RecipeError as error:
        yield from error.problems
    except KitError as error:
        yield Problem(str(error), ("model",))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        yield Problem(f"the model could be built but not run: {type(error).__name__}: {error}", ("model",))
