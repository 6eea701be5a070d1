"""Layer plans: the parts of one layer of a stack as options, each with its place in the recipe and its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kit.contracts.attention import Attention
from kit.contracts.sublayer import Residual
from kit.plugin.component import BuildContext, Component, Dims, Options

SLOTS = ("attention", "cross_attention", "feedforward", "residual", "norm", "position", "masks")
SUBLAYERS = ("attention", "cross_attention", "feedforward")


@dataclass(frozen=True)
class LayerPlan:
    """One layer before it is built; a slot that a stack does not have is left out of both mappings."""

    build_context: BuildContext
    parts: Mapping[str, Any]
    """The options in each slot, None where it is empty; `masks` holds a list."""
    paths: Mapping[str, tuple[str | int, ...]]
    """The place of each slot in the recipe, from the stack on, such as `("layers", 1, "attention")`."""
    width: int | None = None
    """Width of the vectors that sublayers read; None for the model's width."""

    @classmethod
    def from_options(cls, options: Options, build_context: BuildContext) -> LayerPlan:
        """The plan of a stack whose options hold its parts in fields named after the slots."""
        named = [slot for slot in SLOTS if slot in type(options).model_fields]
        chosen = {slot: getattr(options, slot) for slot in named}
        inherited = {slot: build_context.inherited.get(slot) for slot in named if chosen[slot] is None}
        return cls(build_context, {**chosen, **inherited}, {slot: (slot,) for slot in named})

    def part(self, slot: str) -> Options | None:
        """The options in a slot, if there is such a slot and it is filled."""
        chosen: Options | None = self.parts.get(slot)
        return chosen

    def part_class(self, slot: str) -> type[Component] | None:
        """The class of the part in a slot."""
        options = self.part(slot)
        return None if options is None else self.build_context.component_of(options)

    @property
    def residual(self) -> type[Residual] | None:
        """The class of the residual."""
        component = self.part_class("residual")
        assert component is None or issubclass(component, Residual)
        return component

    @property
    def carries_streams(self) -> bool:
        """Whether the residual carries something other than token vectors from layer to layer."""
        residual = self.residual
        return residual is not None and (
            residual.begin_stream is not Residual.begin_stream or residual.end_stream is not Residual.end_stream
        )

    @property
    def masks(self) -> list[Options]:
        """The masks, all of which must allow a pair."""
        return list(self.parts.get("masks") or ())

    @property
    def sublayers(self) -> tuple[str, ...]:
        """The sublayers, in the order in which they run."""
        return tuple(slot for slot in SUBLAYERS if self.part(slot) is not None)

    def at(self, slot: str, *steps: str | int) -> BuildContext:
        """The build context of the part in a slot."""
        here, chosen = self.build_context, self.parts[slot]
        norm = {} if self.part("norm") is None else {"norm": self.part("norm")}
        context = here.at(
            *self.paths[slot], *steps, role=slot, sublayers=self.sublayers, inherited={**here.inherited, **norm}
        )
        if slot in here.inherited and here.inherited[slot] is chosen:
            # The model chose it for all its stacks, so messages have to point there.
            return replace(context, path=(*here.path[:-1], slot))
        return context

    def dims(self, slot: str, dims: Dims) -> Dims:
        """The sizes of the part in a slot."""
        sizes = dims if self.width is None else replace(dims, width=self.width)
        if slot == "position":
            heads, head_dim = self.heads(sizes)
            return replace(sizes, memory=None, heads=heads, head_dim=head_dim)
        return sizes if slot == "cross_attention" else replace(sizes, memory=None)

    def heads(self, dims: Dims) -> tuple[int, int]:
        """Number of heads and width of a query of the layer's self-attention."""
        attention = self.part_class("attention")
        assert attention is not None and issubclass(attention, Attention)
        return attention.head_shape(self.parts["attention"], dims)

    def build(self, slot: str, dims: Dims) -> Any:
        """Build the part in a slot; None where the slot is empty."""
        options = self.part(slot)
        return None if options is None else self.at(slot).build(options, self.dims(slot, dims))
