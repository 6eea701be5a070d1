"""Which search a prediction is made with: that of the recipe, changed by a few words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from kit.component import Options
from kit.errors import KitError
from kit.recipe.load import load_recipe
from kit.recipe.sections import Recipe
from kit.registry import Registry


def chosen_search(recipe: Recipe, registry: Registry, words: str | Options | None, most: int) -> Options:
    """The options of a search that gives so many answers.

    words: `beam size=5` names a search and changes it, `size=5` changes that of the recipe, `{use: beam, size: 5}` is
    the same as in a recipe; None is that of the recipe, or the installed default.
    """
    if isinstance(words, str):
        recipe = load_recipe(recipe, registry, list(_overrides(recipe, registry, words))).recipe
        words = None
    options: Options = words or recipe.search or _default(registry)
    return options if most == 1 else _with_several(options, registry, most)


def _overrides(recipe: Recipe, registry: Registry, words: str) -> Iterator[str]:
    """The words as changes to a recipe."""
    if words.lstrip().startswith("{"):
        yield f"search={words}"
        return
    try:
        pieces = shlex.split(words)
    except ValueError as error:
        raise KitError(f"the search {words!r} cannot be read: {error}\n    write: name option=value ...") from error
    if recipe.search is None and (not pieces or "=" in pieces[0]):
        yield f"search={_default(registry).model_dump()['use']}"
    for number, piece in enumerate(pieces):
        if "=" in piece:
            yield f"search.{piece.removeprefix('search.')}"
        elif number == 0:
            yield f"search={piece}"
        else:
            raise KitError(f"the search {words!r}: found {piece!r}, wanted option=value, such as size=5")


def _with_several(options: Options, registry: Registry, most: int) -> Options:
    """The same search, giving so many answers."""
    component: type[Any] = registry.of_options(type(options)).component
    if not component.several:
        able = [part for part in registry.components("search") if getattr(part.component, "several", "")]
        names = " or ".join(sorted(part.name for part in able))
        raise KitError(f"the search {component.part_name()} gives one answer, and {most} are wanted; take {names}")
    asked = {**options.model_dump(exclude_unset=True), "use": component.part_name(), component.several: most}
    try:
        return type(options).model_validate(asked)
    except ValidationError as error:
        reasons = "; ".join(str(found["msg"]).removeprefix("Value error, ") for found in error.errors())
        raise KitError(f"the search {component.part_name()} cannot give {most} answers: {reasons}") from error


def _default(registry: Registry) -> Options:
    found = registry.default("search")
    if found is None:
        raise KitError("no search is named, and no installed one is the default; kit list search shows what there is")
    return found.component.options_type.model_validate({"use": found.name})
