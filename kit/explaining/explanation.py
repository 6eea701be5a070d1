"""Everything `kit explain` says of a recipe."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kit.explaining.cost import Cost, measure
from kit.explaining.tree import Node, grow
from kit.model.assembly import ASSUMED_VOCABULARY, Assembly
from kit.model.blueprint import blueprint
from kit.model.facts import facts_needed
from kit.recipe.sections import Recipe

if TYPE_CHECKING:
    from kit.registry import Registry

LONGEST_MEASURED = 512
"""Costs are counted for a text of at most this length, and the length is printed beside them."""


@dataclass(frozen=True)
class Explanation:
    """The tree of a model and its cost."""

    name: str
    tree: Node
    cost: Cost
    notes: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return {"name": self.name, "cost": asdict(self.cost), "notes": list(self.notes), "tree": asdict(self.tree)}

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from kit.showing import explanation_html

        return explanation_html(self)


def explain(recipe: Recipe, registry: Registry) -> Explanation:
    """Build on the meta device, look and measure; takes no memory to speak of, whatever the size."""
    with blueprint():
        model = Assembly(registry).model(recipe.model)
        facts = facts_needed(recipe.model, registry)
        cost = measure(model, min(recipe.model.length, LONGEST_MEASURED), facts)
    notes = []
    if recipe.model.vocabulary is None:
        notes.append(f"the tokenizer decides the vocabulary; {ASSUMED_VOCABULARY:,} tokens are assumed here")
    return Explanation(recipe.name, grow(model, recipe.model.family), cost, tuple(notes))
