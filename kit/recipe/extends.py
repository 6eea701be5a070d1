"""Reads a recipe file and the ones it extends, each laid over the one before."""

from __future__ import annotations

import difflib
from pathlib import Path

from kit.confining import HINT, may_read
from kit.errors import Problem, RecipeError
from kit.recipe.merge import merge
from kit.recipe.nodes import MappingNode, Place, ScalarNode
from kit.recipe.spots import Spot
from kit.recipe.yaml_reader import LARGEST, read_yaml

LONGEST = 8
"""How many recipes may extend each other in a row."""


def read_file(path: Path, spot: Spot) -> MappingNode:
    """The recipe in a file, with what it extends underneath."""
    return extended(read_yaml(_bytes(path, Place()), str(path)), path, spot)


def extended(root: MappingNode, path: Path, spot: Spot) -> MappingNode:
    """A recipe that was read from `path` (or stands for a file there), with what it extends underneath."""
    layers = [_without_extends(root)]
    seen = [_identity(path)]
    folder = path.parent
    while (entry := root.entries.get("extends")) is not None:
        node = entry.node
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            raise _refusal("wanted the path of another recipe, such as `extends: base.yaml`", entry.place)
        path = path.parent / node.value
        if not _may_read(path, folder):
            raise _refusal(
                f"found {node.value}, which lies outside {folder.resolve()}, the recipe's folder, and the current one",
                node.place,
                HINT,
            )
        if _identity(path) in seen:
            raise _refusal(f"found {node.value}, which extends this recipe in turn: that is a circle", node.place)
        if len(layers) >= LONGEST:
            raise _refusal(f"found more than {LONGEST} recipes that extend each other in a row", node.place)
        seen.append(_identity(path))
        root = read_yaml(_bytes(path, node.place), str(path))
        layers.append(_without_extends(root))
    result = layers[-1]
    for layer in reversed(layers[:-1]):
        merged = merge(result, layer, spot)
        assert isinstance(merged, MappingNode)
        result = merged
    return result


def _bytes(path: Path, wanted_by: Place) -> bytes:
    """What a file holds, up to just past the largest size that is read."""
    try:
        if not path.is_file():
            found = "is a folder" if path.is_dir() else "is not there"
            raise _unreadable(path, f"the recipe {path} {found}", wanted_by)
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _unreadable(path, f"the recipe {path} cannot be read: {reason}", wanted_by) from None


def _unreadable(path: Path, message: str, wanted_by: Place) -> RecipeError:
    place = wanted_by if wanted_by.source is not None else Place(str(path))
    steps = ("extends",) if wanted_by.source is not None else ()
    return RecipeError([Problem(message, steps, place.source, place.line, _neighbour(path))])


def _neighbour(path: Path) -> str | None:
    """The file beside it whose name is nearest."""
    try:
        names = sorted(file.name for file in path.parent.iterdir() if file.suffix in (".yaml", ".yml"))
    except (OSError, ValueError):
        return None
    near = difflib.get_close_matches(path.name, names, 1)
    return f"did you mean {path.parent / near[0]}?" if near else None


def _without_extends(root: MappingNode) -> MappingNode:
    return root.with_entry("extends", None)


def _identity(path: Path) -> str:
    try:
        return str(path.resolve())
    except (OSError, RuntimeError, ValueError):
        return str(path)


def _may_read(path: Path, folder: Path) -> bool:
    try:
        return may_read(path, [folder])
    except (OSError, RuntimeError, ValueError):
        return True  # a path that cannot be; reading it says why


def _refusal(message: str, place: Place, hint: str | None = None) -> RecipeError:
    return RecipeError([Problem(message, ("extends",), place.source, place.line, hint)])
