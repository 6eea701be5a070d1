"""Changes to a recipe from the command line: `model.width=512`, `model.encoder.layers[0].attention.heads=4`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NoReturn

from kit.errors import Problem, RecipeError
from kit.recipe.merge import child_spot, merge, shorthand, unfolded
from kit.recipe.nodes import Entry, ListNode, MappingNode, Node, Path, Place, ScalarNode
from kit.recipe.scalars import spelled
from kit.recipe.spots import Spot, inside
from kit.recipe.yaml_reader import read_value

_FORM = "wanted a path, = and a value, such as model.width=512 or model.encoder.layers[0].norm=rms"
_STEP = re.compile(r"\.?(?P<name>[^.\[\]=\s]+)|\[(?P<index>[0-9]{1,6})\]")
_LONGEST = 32


def apply_overrides(root: MappingNode, overrides: Iterable[str], spot: Spot) -> MappingNode:
    """The recipe with each override laid over it in turn; raises RecipeError with every override that cannot be."""
    problems: list[Problem] = []
    for text in overrides:
        source = f"override '{text if len(text) <= 80 else text[:77] + '...'}'"
        try:
            path, value = _parse(text, source)
            changed = _set(root, path, value, spot, _Change(source, path))
            assert isinstance(changed, MappingNode)
            root = changed
        except RecipeError as error:
            problems += error.problems
    if problems:
        raise RecipeError(problems)
    return root


class _Change:
    """The override that is being applied, for messages."""

    def __init__(self, source: str, path: Path) -> None:
        self.place = Place(source)
        self.path = path

    def refuse(self, message: str, rest: Path, hint: str | None = None) -> NoReturn:
        """There is nothing to change at the path, with `rest` still to go."""
        reached = self.path[: len(self.path) - len(rest)]
        raise RecipeError([Problem(message, reached, self.place.source, hint=hint)])


def _parse(text: str, source: str) -> tuple[Path, Node]:
    left, equals, right = text.partition("=")
    steps: list[str | int] = []
    end = 0
    left = left.strip()
    for found in _STEP.finditer(left):
        if found.start() != end or (end == 0) == found.group().startswith((".", "[")):
            break
        end = found.end()
        steps.append(found["name"] if found["name"] is not None else int(found["index"]))
    if not equals or not steps or end != len(left) or len(steps) > _LONGEST:
        raise RecipeError([Problem(f"this is not a change to a recipe; {_FORM}", source=source)])
    value = read_value(right, source) if right.strip() else ScalarNode(None, Place(source))
    return tuple(steps), value


def _set(node: Node | None, path: Sequence[str | int], value: Node, spot: Spot, change: _Change) -> Node | None:
    """The node with the value laid over what is at the path; None where null took the whole node away."""
    if not path:
        removed = isinstance(value, ScalarNode) and value.value is None and node is not None
        return None if removed else merge(node, value, spot)
    step, rest = path[0], tuple(path[1:])
    node = MappingNode(change.place) if node is None and isinstance(step, str) else node
    node = unfolded(node) if node is not None else None
    if isinstance(step, int):
        return _set_item(node, step, rest, value, spot, change)
    if isinstance(node, ScalarNode) and isinstance(node.value, str):
        node = shorthand(node)
    if not isinstance(node, MappingNode):
        found = "a list" if isinstance(node, ListNode) else spelled(node.value if node else None)
        change.refuse(f"found {found}, which has nothing called '{step}'", (step, *rest), _index_hint(node, step))
    if not rest:
        return merge(node, MappingNode(node.place, {step: Entry(change.place, value)}), spot)
    child = _set(node.get(step), rest, value, child_spot(spot, node, step), change)
    return node.with_entry(step, Entry(_key_place(node, step, child, change), child) if child is not None else None)


def _set_item(node: Node | None, index: int, rest: Path, value: Node, spot: Spot, change: _Change) -> ListNode:
    if not isinstance(node, ListNode):
        change.refuse(f"found no list here, so there is no [{index}]", (index, *rest))
    if index >= len(node.items):
        last = f"the last one is [{len(node.items) - 1}]" if node.items else "it is empty"
        change.refuse(f"found a list of {len(node.items)}, which has no [{index}]", (index, *rest), last)
    child = _set(node.items[index], rest, value, inside(spot, index), change)
    items = [*node.items[:index], *([child] if child is not None else []), *node.items[index + 1 :]]
    return ListNode(node.place, items)


def _key_place(node: MappingNode, step: str, child: Node | None, change: _Change) -> Place:
    """Where the key was written; the override, where everything under the key now comes from it."""
    kept = isinstance(child, MappingNode) and any(entry.place != change.place for entry in child.entries.values())
    return node.entries[step].place if step in node.entries and kept else change.place


def _index_hint(node: Node | None, step: str) -> str | None:
    return f"write [{step}] to change an item" if isinstance(node, ListNode) and step.isdigit() else None
