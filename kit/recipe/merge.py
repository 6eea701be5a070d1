"""Lays one recipe over another: mappings merge, everything else replaces, and options of two parts are never mixed."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic_core import PydanticCustomError

from kit.recipe.bound import BoundSlot, set_fields
from kit.recipe.nodes import Entry, MappingNode, Node, ScalarNode, from_plain, to_plain
from kit.recipe.spots import Spot, inside, model_at, structure


def merge(base: Node | None, over: Node, spot: Spot) -> Node:
    """What `over` makes of `base` at a spot of the recipe."""
    if base is None or not isinstance(over, MappingNode):
        return over
    lower = unfolded(base)
    if isinstance(lower, ScalarNode) and isinstance(lower.value, str) and _is_slot(spot):
        lower = shorthand(lower)
    if not isinstance(lower, MappingNode) or not _same_part(lower, over, spot):
        return over
    entries = dict(lower.entries)
    both = MappingNode(over.place, {**lower.entries, **over.entries})
    for key, entry in over.entries.items():
        below = entries.get(key)
        if below is not None and isinstance(entry.node, ScalarNode) and entry.node.value is None:
            del entries[key]
        else:
            merged = merge(below.node if below else None, entry.node, child_spot(spot, both, key))
            entries[key] = Entry(entry.place, merged)
    return MappingNode(over.place, entries)


def unfolded(node: Node) -> Node:
    """Options or a section of a recipe written in Python as the mapping they stand for; other nodes as they are."""
    if isinstance(node, ScalarNode) and isinstance(node.value, BaseModel):
        return from_plain(set_fields(node.value), node.place)
    return node


def shorthand(node: ScalarNode) -> MappingNode:
    """`norm: rms` as `norm: {use: rms}`."""
    return MappingNode(node.place, {"use": Entry(node.place, node)})


def child_spot(spot: Spot, node: MappingNode, key: str) -> Spot:
    """The spot of a key in a mapping."""
    use = node.get("use")
    keys = dict.fromkeys(node.entries) | ({"use": to_plain(use)} if use is not None else {})
    return inside(model_at(spot, keys) or spot, key)


def _is_slot(spot: Spot) -> bool:
    return spot is None or isinstance(structure(spot), BoundSlot)


def _same_part(base: MappingNode, over: MappingNode, spot: Spot) -> bool:
    """Whether two mappings at one spot are about the same part; any mapping is where the spot is no slot."""
    if spot is not None and isinstance(structure(spot, base.entries), BoundSlot) != isinstance(
        structure(spot, over.entries), BoundSlot
    ):
        return False  # one is a part and the other a section that may stand in its place
    if "use" not in over.entries or not _is_slot(spot):
        return True
    names = [to_plain(entry.node) if (entry := node.entries.get("use")) else None for node in (base, over)]
    slot = structure(spot) if spot is not None else None
    if not isinstance(slot, BoundSlot):
        return bool(names[0] == names[1])
    try:
        return slot.part_of({"use": names[0]}).scoped == slot.part_of({"use": names[1]}).scoped
    except PydanticCustomError:
        return bool(names[0] == names[1])
