"""Whether a recipe can be built and run: its parts are asked, then the model is tried on the meta device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch

from kit.decoding.checks import search_problems
from kit.errors import KitError, Problem, RecipeError
from kit.model.assembly import Assembly
from kit.model.blueprint import blueprint
from kit.model.facts import facts_needed, tokens_with
from kit.model.families import EncoderDecoder
from kit.recipe.load import load_recipe
from kit.recipe.sections import Recipe
from kit.registry import Registry
from kit.training.checks import training_problems

RecipeSource: TypeAlias = Path | str | Mapping[str, Any] | Recipe

TRIAL_LENGTH = 8


def checked_recipe(source: RecipeSource, registry: Registry, overrides: Iterable[str] = ()) -> Recipe:
    """Load a recipe and try it; raises RecipeError with every problem and its line."""
    loaded = load_recipe(source, registry, overrides)
    assembly = Assembly(registry)
    problems = list(assembly.check(loaded.recipe.model)) or list(_trial(loaded.recipe, assembly))
    problems += training_problems(loaded.recipe, registry)
    problems += search_problems(loaded.recipe, registry)
    if problems:
        raise RecipeError([loaded.locate_problem(problem) for problem in problems])
    return loaded.recipe


def _trial(recipe: Recipe, assembly: Assembly) -> Iterable[Problem]:
    """Build the model and run it once, on shapes without numbers: what a check missed shows here, not in training."""
    try:
        with blueprint(), torch.no_grad():
            model = assembly.model(recipe.model)
            ids = torch.zeros(2, min(TRIAL_LENGTH, recipe.model.length), dtype=torch.long)
            text = tokens_with(ids, facts_needed(recipe.model, assembly.registry))
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
