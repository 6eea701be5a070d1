"""What one layer of a stack is made of, after patterns and what the model says have been filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kit import Attention, Dims, Options, Residual, Site

SLOTS = ("attention", "cross_attention", "feedforward", "residual", "norm", "position", "masks")


@dataclass(frozen=True)
class LayerPlan:
    """The parts of one layer, as options, with the place in the recipe that each came from."""

    site: Site
    parts: Mapping[str, Any]
    paths: Mapping[str, tuple[str | int, ...]]

    def part(self, slot: str) -> Options | None:
        """The options in a slot, if it is filled."""
        chosen: Options | None = self.parts[slot]
        return chosen

    @property
    def residual(self) -> type[Residual]:
        """The class of the residual."""
        component = self.site.component_of(self.parts["residual"])
        assert issubclass(component, Residual)
        return component

    @property
    def masks(self) -> list[Options]:
        """The masks, all of which must allow a pair."""
        return list(self.parts["masks"] or ())

    @property
    def sublayers(self) -> tuple[str, ...]:
        """The sublayers, in the order in which they run."""
        return tuple(name for name in SLOTS[:3] if self.parts[name] is not None)

    def at(self, slot: str, *steps: str | int) -> Site:
        """The site of the part in a slot."""
        norm = {} if self.parts["norm"] is None else {"norm": self.parts["norm"]}
        inherited = {**self.site.inherited, **norm}
        site = self.site.at(*self.paths[slot], *steps, role=slot, sublayers=self.sublayers, inherited=inherited)
        if slot in self.site.inherited and self.site.inherited[slot] is self.parts[slot]:
            # The model said it for all its stacks, so that is where a message has to point.
            return replace(site, path=(*self.site.path[:-1], slot))
        return site

    def dims(self, slot: str, dims: Dims) -> Dims:
        """The sizes for the part in a slot."""
        if slot == "position":
            heads, head_width = self.heads(dims)
            return replace(dims, memory=None, heads=heads, head_width=head_width)
        return dims if slot == "cross_attention" else replace(dims, memory=None)

    def heads(self, dims: Dims) -> tuple[int, int]:
        """Heads and width of a query of the layer's own attention."""
        options = self.parts["attention"]
        attention = self.site.component_of(options)
        assert issubclass(attention, Attention)
        return attention.head_shape(options, dims)

    def build(self, slot: str, dims: Dims) -> Any:
        """Build the part in a slot; None where the slot is empty."""
        options = self.part(slot)
        return None if options is None else self.at(slot).build(options, self.dims(slot, dims))
