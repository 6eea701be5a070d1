"""Makes the cells of a study equal in what its budget names, without training: a width or the steps are solved for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.utils.flop_counter import FlopCounterMode

from kit.data.fingerprints import digest_of
from kit.errors import KitError, RecipeError
from kit.explaining.explanation import LONGEST_MEASURED
from kit.model.assembly import Assembly
from kit.model.blueprint import blueprint
from kit.model.facts import facts_needed, tokens_with
from kit.model.families import EncoderDecoder
from kit.recipe.dump import to_yaml
from kit.recipe.sections import Vocabularies
from kit.runs.atomic import write_text
from kit.studying.cells import Combination
from kit.studying.reading import Study
from kit.training.choosing import Choices
from kit.training.dry_run import plan

if TYPE_CHECKING:
    from kit.kit import Kit
    from kit.recipe.sections import Recipe

GUESSES = 12
"""How often a width is guessed from the one before."""
NEIGHBOURS = 64
"""How far from a guess a width is looked for that all parts accept."""
BACKWARD = 3
"""Forward and backward take about three times the operations of forward alone."""


_FLOPS: dict[str, float] = {}
"""Counting a recurrence takes a second, and cells that differ in their seed alone have the same model."""


class Counter:
    """Counts what recipes come to, with the vocabularies that their tokenizers will have."""

    def __init__(self, kit: Kit, folder: Path) -> None:
        self.kit = kit
        self.folder = folder
        self._known: dict[str, Vocabularies] = {}

    def vocabularies(self, recipe: Recipe) -> Vocabularies:
        """How many tokens there are; tokenizers are trained for it, once for the same data."""
        choices = Choices(recipe, self.kit.registry, self.folder)
        data = choices.data()
        key = f"{data.part_name()} {data.fingerprint()} {recipe.tokenizer!r}"
        if key not in self._known:
            tokenizers = choices.tokenizers()
            data.prepare()
            tokenizers.train(data)
            self._known[key] = Vocabularies(source=tokenizers.source.size, target=tokenizers.target.size)
        return self._known[key]

    def parameters(self, recipe: Recipe) -> int:
        """Of the whole model, without building it for real."""
        with blueprint():
            model = Assembly(self.kit.registry).model(recipe.model, self.vocabularies(recipe))
            return sum(each.numel() for each in model.parameters())

    def flops(self, recipe: Recipe) -> float:
        """Operations of one forward pass for a token of a text as long as the model is made for, up to a limit."""
        key = f"{recipe.model!r} {self.vocabularies(recipe)!r}"
        if key not in _FLOPS:
            length = min(recipe.model.length, LONGEST_MEASURED)
            with blueprint(), torch.no_grad(), FlopCounterMode(display=False) as counter:
                model = Assembly(self.kit.registry).model(recipe.model, self.vocabularies(recipe)).eval()
                ids = torch.zeros(1, length, dtype=torch.long, device="meta")
                text = tokens_with(ids, facts_needed(recipe.model, self.kit.registry))
                model(text, text) if isinstance(model, EncoderDecoder) else model(text)
            _FLOPS[key] = counter.get_total_flops() / length
        return _FLOPS[key]

    def work(self, recipe: Recipe, name: str) -> float:
        """What one step takes: tokens, or operations forward and backward."""
        assert recipe.training is not None
        tokens = recipe.training.batch_tokens
        return float(tokens if name == "tokens" else BACKWARD * self.flops(recipe) * tokens)


def balanced(study: Study, kit: Kit, found: list[Combination], notes: Path) -> list[Combination]:
    """The combinations with what the budget adjusts; notes: where that is written down, so that it stays the same."""
    same = study.section.budget.same
    if same == "steps":
        return found
    counter = Counter(kit, study.folder)
    known: dict[str, dict[str, int]] = json.loads(notes.read_text()) if notes.is_file() else {}
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
            solve = _same_parameters if same == "parameters" else _same_work
            known[key] = solve(study, counter, each, base)
            notes.parent.mkdir(parents=True, exist_ok=True)
            write_text(notes, json.dumps(known, indent=2) + "\n")
        result.append(each.with_adjusted(known[key]))
    return result


def _same_parameters(study: Study, counter: Counter, each: Combination, base: Combination) -> dict[str, int]:
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
    """The width whose count is nearest to the target; `count` gives None for a width that a part refuses."""
    guess, known = start, dict[int, int]()
    for _ in range(GUESSES):
        found = _nearest_allowed(guess, count, known)
        if found is None:
            raise KitError(f"no width near {guess} is accepted by all parts")
        # Parameters grow with the width at first and with its square later, so a step between the two converges.
        better = max(1, round(found * (target / max(1, known[found])) ** 0.6))
        if better in known or better == guess:
            break
        guess = better
    best = min(known, key=lambda width: (abs(known[width] - target), width))
    for direction in (1, -1):
        width, tries = best + direction, 0
        while tries < NEIGHBOURS and width > 0:
            value = known[width] if width in known else count(width)
            if value is not None:
                known[width] = value
                if abs(value - target) > abs(known[best] - target):
                    break
                best = width
            width, tries = width + direction, tries + 1
    return best


def _nearest_allowed(guess: int, count: Callable[[int], int | None], known: dict[int, int]) -> int | None:
    for distance in range(NEIGHBOURS):
        for width in dict.fromkeys((guess + distance, guess - distance)):
            value = (known.get(width) or count(width)) if width > 0 else None
            if value is not None:
                known[width] = value
                return width
    return None


def _same_work(study: Study, counter: Counter, each: Combination, base: Combination) -> dict[str, int]:
    """As many steps as come to the tokens, the operations or the time of the base."""
    mine, theirs = each.recipe(study, counter.kit), base.recipe(study, counter.kit)
    assert theirs.training is not None
    name = study.section.budget.same
    if name == "time":
        one, other = (plan(recipe, counter.kit, counter.folder).seconds_a_step for recipe in (mine, theirs))
    else:
        one, other = counter.work(mine, name), counter.work(theirs, name)
    return {"training.steps": max(1, round(other / one * theirs.training.steps))}
