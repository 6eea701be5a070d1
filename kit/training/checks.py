"""What stands against training a recipe, told when it is read: parts and numbers that do not suit each other."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from kit.component import Options
from kit.contracts.data import Data
from kit.contracts.head import Head
from kit.contracts.objective import Form, Objective
from kit.errors import KitError, Problem
from kit.recipe.sections import Recipe
from kit.recipe.training_section import TokenizerPair, TrainingSection
from kit.registry import Registry
from kit.training.choosing import Choices, objective_for, unsuited
from kit.training.feeding import FACTS

_DEFAULTS = ("optimizer", "schedule")
_PRECISION = ("training", "precision")


def training_problems(recipe: Recipe, registry: Registry) -> Iterator[Problem]:
    """Everything; a recipe without a training section has nothing to say here."""
    training = recipe.training
    if training is None:
        return
    choices = Choices(recipe, registry)
    for name in ("data", "tokenizer"):
        if getattr(recipe, name) is None:
            hint = f"add {name}: ...; kit list {name} shows what there is"
            yield Problem(f"a recipe that is trained needs this key: {name}", (), hint=hint)
    yield from _defaults(training, registry)
    yield from _schedule(choices)
    yield from _metrics(choices)
    yield from _tokenizers(recipe)
    yield from _devices(training)
    yield from _tensor(choices)
    if recipe.data is not None:
        yield from _objective(choices, choices.data())


def _defaults(training: TrainingSection, registry: Registry) -> Iterator[Problem]:
    for kind in _DEFAULTS:
        if getattr(training, kind) is None and registry.default(kind) is None:
            yield Problem(f"no {kind} is named and no default is installed", ("training",), hint=f"write {kind}: ...")


def _devices(training: TrainingSection) -> Iterator[Problem]:
    if training.strategy == "fsdp" and training.precision == "float16":
        hint = "write bfloat16, or strategy: ddp"
        yield Problem("a model that is spread over processes cannot be scaled for float16", _PRECISION, hint=hint)
    if training.accelerator == "mps" and training.devices * training.nodes > 1:
        yield Problem("mps computes in one process", ("training", "devices"), hint="write devices: 1")


def _tensor(choices: Choices) -> Iterator[Problem]:
    training, where = choices.training, ("training", "tensor")
    tensor, devices = training.tensor, training.devices
    if tensor == 1:
        return
    if training.strategy != "fsdp":
        found = f"the strategy is {training.strategy}, which has every layer whole in each process"
        yield Problem(f"{tensor} processes are to share each layer, and {found}", where, hint="write strategy: fsdp")
    if devices % tensor:
        fitting = [number for number in range(1, devices + 1) if devices % number == 0]
        hint = f"write tensor: {' or '.join(map(str, fitting))}, or devices: {-(-devices // tensor) * tensor}"
        yield Problem(
            f"{tensor} processes of one node are to share each layer, and that does not divide its {devices} devices",
            where,
            hint=hint,
        )
    if training.optimizer is not None or choices.registry.default("optimizer") is not None:
        optimizer = choices.optimizer()
        if not optimizer.elementwise:
            yield Problem(
                f"the optimizer {optimizer.part_name()} looks at whole matrices, and with tensor: {tensor} no process "
                "has them",
                where,
                hint="write tensor: 1, or choose an optimizer that updates number by number, such as adamw",
            )


def _schedule(choices: Choices) -> Iterator[Problem]:
    if choices.training.schedule is not None:
        for objection in choices.schedule().objections(choices.training.steps):
            yield Problem(objection, ("training", "schedule"), hint="change the schedule, or training.steps")


def _metrics(choices: Choices) -> Iterator[Problem]:
    named, metrics = choices.training.metric, choices.metrics()
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


def _objective(choices: Choices, data: Data) -> Iterator[Problem]:
    family, named = choices.recipe.model.family, choices.training.objective
    where = ("training", "objective") if named is not None else ("training",)
    try:
        component = _class(choices, named) if named is not None else objective_for(choices.registry, family, data.task)
    except KitError as error:
        yield Problem(str(error), where)
        return
    serves = next((it for it in component.serves if (it.family, it.task) == (family, data.task)), None)
    if serves is None:
        hint = "leave objective out, and one that suits is taken"
        yield Problem(unsuited(component, family, data.task), where, hint=hint)
        return
    yield from _head(choices, component)
    yield from _facts(choices, serves.form, component.brings)


def _head(choices: Choices, component: type[Objective]) -> Iterator[Problem]:
    named = choices.recipe.model.head
    default = choices.registry.default("head")
    head = choices.registry.of_options(type(named)).component if named else default.component if default else None
    if head is None or not issubclass(head, Head) or head.per_token == component.per_token:
        return
    wanted = "scores for every token" if component.per_token else "one score for each text"
    yield Problem(
        f"the objective {component.part_name()} wants {wanted}, and the head {head.part_name()} gives something else",
        ("model", "head") if named is not None else ("model",),
        hint="name another head; kit list head shows them",
    )


def _facts(choices: Choices, form: Form, brought: frozenset[str]) -> Iterator[Problem]:
    for fact in sorted(choices.facts_needed() - FACTS[form] - brought):
        yield Problem(
            f"a mask of this model wants to know the {fact} of every token, which batches of {form} do not say",
            ("model",),
            hint="leave that mask out, or choose data or an objective that brings it",
        )


def _class(choices: Choices, options: Options) -> type[Objective]:
    component = choices.registry.of_options(type(options)).component
    assert issubclass(component, Objective)
    return component
