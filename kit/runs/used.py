"""The parts that a run uses: each with its plugin, distribution and version, and a hash of the file that holds it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from kit.component import Options
from kit.errors import KitError
from kit.recipe.sections import Recipe
from kit.registry import Registered, Registry


class UsedPart(BaseModel):
    """Where a part came from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    plugin: str
    distribution: str
    version: str
    """Of the distribution."""
    options: int = 1
    """The version of its options."""
    sha256: str
    """Of the file that its class is written in."""


def used_parts(recipe: Recipe, registry: Registry, more: Iterable[Options] = ()) -> dict[str, UsedPart]:
    """By kind and name: every part that a recipe names, and the defaults of kinds that it names none of.

    more: options of parts that were chosen for the recipe, such as its objective.
    """
    found: dict[str, Registered] = {}
    for options in (*_options(recipe), *more):
        try:
            part = registry.of_options(type(options))
        except KitError:  # options that are no part's own
            continue
        found[_title(part)] = part
    kinds = {part.kind for part in found.values()}
    for kind in registry.kinds():
        default = registry.default(kind) if kind not in kinds else None
        if default is not None:
            found[_title(default)] = default
    return {title: used_part(found[title]) for title in sorted(found)}


def used_part(part: Registered) -> UsedPart:
    """A part as a lock records it."""
    file = inspect.getsourcefile(part.component)
    content = Path(file).read_bytes() if file and Path(file).is_file() else b""
    return UsedPart(
        plugin=part.plugin,
        distribution=part.distribution,
        version=part.version,
        options=part.component.version,
        sha256=hashlib.sha256(content).hexdigest(),
    )


def parts_here(then: Mapping[str, UsedPart], registry: Registry) -> dict[str, UsedPart]:
    """Those of the parts that are installed now, as they are now."""
    found = {}
    for title, part in then.items():
        kind, _, name = title.partition(" ")
        for candidate in (name, f"{part.distribution}/{name.rpartition('/')[2]}"):
            try:
                found[title] = used_part(registry.find(kind, candidate))
                break
            except KitError:
                continue
    return found


def differences(then: Mapping[str, UsedPart], now: Mapping[str, UsedPart]) -> Iterator[str]:
    """What has become of the parts, a sentence each."""
    for title, part in then.items():
        here = now.get(title)
        if here is None:
            wanted = part.distribution + (f"=={part.version}" if part.version else "")
            yield f"the {title} is not here; it came with {wanted}: pip install {wanted}"
        elif here.options != part.options:
            yield f"the options of the {title} were version {part.options}, are version {here.options}"
        elif here.sha256 != part.sha256:
            yield f"the {title} is not the same code as then ({here.distribution} {here.version})".replace(" )", ")")


def _options(value: Any) -> Iterator[Options]:
    """Every options object in a recipe, parts inside parts included."""
    if isinstance(value, Options):
        yield value
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _options(getattr(value, name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _options(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _options(item)


def _title(part: Registered) -> str:
    return f"{part.kind} {part.name}"
