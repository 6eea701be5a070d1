"""What stands against the search of a recipe, told when it is read."""

from __future__ import annotations

from collections.abc import Iterator

from kit.contracts.head import Head
from kit.contracts.search import Search
from kit.errors import Problem
from kit.recipe.sections import Recipe
from kit.registry import Registry

_WHERE = ("search",)


def search_problems(recipe: Recipe, registry: Registry) -> Iterator[Problem]:
    """The model must be one that writes, and the search one that needs nothing besides it."""
    if recipe.search is None:
        return
    component = registry.of_options(type(recipe.search)).component
    head = None if recipe.model.head is None else registry.of_options(type(recipe.model.head)).component
    whole = head is not None and issubclass(head, Head) and not head.per_token
    if recipe.model.family == "encoder" or whole:
        found = (
            "a model of the family encoder" if recipe.model.family == "encoder" else "a model that scores whole texts"
        )
        yield Problem(f"{found} writes no text, so there is nothing to search for", _WHERE, hint="leave search out")
    elif issubclass(component, Search) and component.needs_draft:
        yield Problem(
            f"the search {component.part_name()} needs a second run, which a recipe cannot count on",
            _WHERE,
            hint=f"name another here, and use this one afterwards: kit predict RUN --search {component.part_name()} "
            "--draft RUN",
        )
