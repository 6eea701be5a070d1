"""Budget of a study: solves for the width or the number of steps that gives all cells equal cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.utils.flop_counter import FlopCounterMode

from kit import (
    MAX_MEASURED_LENGTH,
    EncoderDecoder,
    KitError,
    ModelBuilder,
    RecipeError,
    RecipeParts,
    Vocabularies,
    digest_of,
    features_needed,
    meta_init,
    plan_training,
    to_yaml,
    tokens_with_features,
    write_text,
)
from kit_study.cells import Combination
from kit_study.study_file import Study

if TYPE_CHECKING:
    from kit import Kit, Recipe

MAX_ITERATIONS = 12
"""The most iterations of the search for a width."""
MAX_DISTANCE = 64
"""The largest distance from a guess at which valid widths are tried."""
TRAINING_FACTOR = 3
"""FLOPs of forward and backward, divided by those of forward."""


_FLOPS: dict[str, float] = {}
"""FLOPs a token by model and vocabulary, since cells that only differ in their seed have the same model."""


class CostCounter:
    """Counts parameters and FLOPs of recipes, with the vocabulary sizes of their trained tokenizers."""

    def __init__(self, kit: Kit, folder: Path) -> None:
        self.kit = kit
        self.folder = folder
        self._known: dict[str, Vocabularies] = {}

    def vocabularies(self, recipe: Recipe) -> Vocabularies:
        """Trains the tokenizers, once for the same data, and returns their vocabulary sizes."""
        parts = RecipeParts(recipe, self.kit.registry, self.folder)
        data = parts.data()
        key = f"{data.name()} {data.fingerprint()} {recipe.tokenizer!r}"
        if key not in self._known:
            tokenizers = parts.tokenizers()
            data.prepare()
            tokenizers.train(data)
            self._known[key] = Vocabularies(source=tokenizers.source.size, target=tokenizers.target.size)
        return self._known[key]

    def parameters(self, recipe: Recipe) -> int:
        """Counts the parameters of the model, built on the meta device."""
        with meta_init():
            model = ModelBuilder(self.kit.registry).model(recipe.model, self.vocabularies(recipe))
            return sum(each.numel() for each in model.parameters())

    def flops(self, recipe: Recipe) -> float:
        """Counts the FLOPs per token of a forward pass, at the model's maximum length up to a limit."""
        key = f"{recipe.model!r} {self.vocabularies(recipe)!r}"
        if key not in _FLOPS:
            length = min(recipe.model.length, MAX_MEASURED_LENGTH)
            with meta_init(), torch.no_grad(), FlopCounterMode(display=False) as counter:
                model = ModelBuilder(self.kit.registry).model(recipe.model, self.vocabularies(recipe)).eval()
                ids = torch.zeros(1, length, dtype=torch.long, device="meta")
                tokens = tokens_with_features(ids, features_needed(recipe.model, self.kit.registry))
                model(tokens, tokens) if isinstance(model, EncoderDecoder) else model(tokens)
            _FLOPS[key] = counter.get_total_flops() / length
        return _FLOPS[key]

    def step_cost(self, recipe: Recipe, name: str) -> float:
        """Returns the cost of a training step: tokens, or FLOPs of forward and backward."""
        assert recipe.training is not None
        tokens = recipe.training.batch_tokens
        return float(tokens if name == "tokens" else TRAINING_FACTOR * self.flops(recipe) * tokens)


def equalized(study: Study, kit: Kit, found: list[Combination], cache_file: Path) -> list[Combination]:
    """Returns the combinations with the changes of the budget; cache_file: the file that caches these changes."""
    same = study.section.budget.same
    if same == "steps":
        return found
    counter = CostCounter(kit, study.folder)
    known: dict[str, dict[str, int]] = json.loads(cache_file.read_text()) if cache_file.is_file() else {}
    compared, base_label = study.compared, study.base_label()
    bases = {each.condition(compared): each for each in found if each.labels.get(compared or "") == base_label}
    result = []
    for each in found:
        base = bases[each.condition(compared)]
        if each is base:
            result.append(each)
            continue
        content = [to_yaml(it.recipe(study, kit), kit.registry) for it in (each, base)]
        key = digest_of([content, study.section.budget.model_dump(mode="json")])[:16]
        if key not in known:
            solve = _width_change if same == "parameters" else _steps_change
            known[key] = solve(study, counter, each, base)
            cache_file.parent.mkdir(parents=True, exist_ok=True)
            write_text(cache_file, json.dumps(known, indent=2) + "\n")
        result.append(each.with_adjusted(known[key]))
    return result


def _width_change(study: Study, counter: CostCounter, each: Combination, base: Combination) -> dict[str, int]:
    budget = study.section.budget
    target = counter.parameters(base.recipe(study, counter.kit))

    def count(size: int) -> int | None:
        try:
            return counter.parameters(each.recipe(study, counter.kit, {budget.adjust: size}))
        except RecipeError:
            return None

    width = width_for(target, count)
    found = count(width)
    assert found is not None
    if abs(found / target - 1) > budget.within:
        raise KitError(
            f"{each.title}: no {budget.adjust} gives about {target:,} parameters; the nearest is {width} with "
            f"{found:,}\n    widen budget.within ({budget.within:g}), or make the base larger"
        )
    return {budget.adjust: width}


def width_for(target: int, count: Callable[[int], int | None], start: int = 64) -> int:
    """Finds the width whose count is nearest to the target; `count` returns None for an invalid width."""
    guess, known = start, dict[int, int]()
    for _ in range(MAX_ITERATIONS):
        found = _nearest_allowed(guess, count, known)
        if found is None:
            raise KitError(f"no width near {guess} is accepted by all parts")
        # Parameters grow between linearly and quadratically with the width, so an exponent between converges.
        better = max(1, round(found * (target / max(1, known[found])) ** 0.6))
        if better in known or better == guess:
            break
        guess = better
    best = min(known, key=lambda width: (abs(known[width] - target), width))
    for direction in (1, -1):
        width, tries = best + direction, 0
        while tries < MAX_DISTANCE and width > 0:
            value = known[width] if width in known else count(width)
            if value is not None:
                known[width] = value
                if abs(value - target) > abs(known[best] - target):
                    break
                best = width
            width, tries = width + direction, tries + 1
    return best


def _nearest_allowed(guess: int, count: Callable[[int], int | None], known: dict[int, int]) -> int | None:
    for distance in range(MAX_DISTANCE):
        for width in dict.fromkeys((guess + distance, guess - distance)):
            value = (known.get(width) or count(width)) if width > 0 else None
            if value is not None:
                known[width] = value
                return width
    return None


def _steps_change(study: Study, counter: CostCounter, each: Combination, base: Combination) -> dict[str, int]:
    """Returns the number of steps with which tokens, FLOPs or time equal those of the base."""
    mine, theirs = each.recipe(study, counter.kit), base.recipe(study, counter.kit)
    assert theirs.training is not None
    name = study.section.budget.same
    if name == "time":
        one, other = (plan_training(recipe, counter.kit, counter.folder).seconds_a_step for recipe in (mine, theirs))
    else:
        one, other = counter.step_cost(mine, name), counter.step_cost(theirs, name)
    return {"training.steps": max(1, round(other / one * theirs.training.steps))}
