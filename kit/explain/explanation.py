"""Explanation of a recipe: the part tree and the cost of its model, built on the meta device, as text, data or HTML."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from kit.explain.cost import Cost, measure
from kit.model.builder import ASSUMED_VOCABULARY, ModelBuilder, meta_init
from kit.model.part_tree import PartNode, part_tree, tree_html
from kit.recipe.difference import Change
from kit.recipe.html import html_table
from kit.recipe.parts import features_needed
from kit.recipe.sections import Recipe

if TYPE_CHECKING:
    from kit.plugin.registry import Registry

MAX_MEASURED_LENGTH = 512
"""Costs are counted for a sequence of at most this length, which is printed beside them."""


@dataclass(frozen=True)
class Explanation:
    """The part tree of a model and its cost."""

    name: str
    tree: PartNode
    cost: Cost
    notes: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """Plain data, for `--json`."""
        return {"name": self.name, "cost": asdict(self.cost), "notes": list(self.notes), "tree": asdict(self.tree)}

    def _repr_html_(self) -> str:
        """Tree, cost and notes, for notebooks."""
        notes = "".join(f"<p><i>{escape(note)}</i></p>" for note in self.notes)
        costs = html_table((name, escape(value)) for name, value in cost_rows(self.cost).items())
        return f"<div>{tree_html(self.tree, self.name)}{costs}{notes}</div>"


def explain(recipe: Recipe, registry: Registry) -> Explanation:
    """Builds and measures the model on the meta device, which takes no memory to speak of, whatever its size."""
    with meta_init():
        model = ModelBuilder(registry).model(recipe.model)
        features = features_needed(recipe.model, registry)
        cost = measure(model, min(recipe.model.length, MAX_MEASURED_LENGTH), features)
    notes = []
    if recipe.model.vocabulary is None:
        notes.append(f"the tokenizer decides the vocabulary; {ASSUMED_VOCABULARY:,} tokens are assumed here")
    return Explanation(recipe.name, part_tree(model, recipe.model.family), cost, tuple(notes))


def cost_rows(cost: Cost) -> dict[str, str]:
    """The figures of a cost with their units, by the words that `kit explain` prints."""
    return {
        "parameters": f"{cost.parameters:,}",
        f"FLOPs per token (forward, {cost.length} tokens)": quantity(cost.flops_per_token),
        "KV cache per generated token": quantity(cost.cache_bytes_per_token, "B"),
        "fixed cache per sequence": quantity(cost.fixed_cache_bytes, "B"),
        "training memory: weights, gradients, Adam": quantity(cost.training_state_bytes, "B"),
        f"training memory per sequence of {cost.length} tokens": quantity(cost.activation_bytes, "B"),
    }


def cost_changes(before: Explanation, after: Explanation) -> list[Change]:
    """Every cost that differs."""
    left, right = asdict(before.cost), asdict(after.cost)
    return [Change(name, left[name], right[name]) for name in left if left[name] != right[name]]


def quantity(number: float, unit: str = "") -> str:
    """A number with an SI prefix: 65.1 M, 3.2 GB."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:,.1f} {letter}{unit}"
    return f"{number:,.0f} {unit}".strip()
