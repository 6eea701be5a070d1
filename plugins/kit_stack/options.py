"""The options of stacks of Transformer layers, and how a pattern of layers is laid out over their depth."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from kit import (
    AttentionSlot,
    FeedforwardSlot,
    MaskSlot,
    NormSlot,
    Options,
    PositionSlot,
    ResidualSlot,
    Section,
    Site,
)
from kit_stack.plan import SLOTS, LayerPlan


class LayerOptions(Section):
    """One step of a pattern of layers: what it names replaces the stack's own choice."""

    repeat: PositiveInt = Field(default=1, le=10_000)
    """How many layers like this follow each other."""
    attention: AttentionSlot | None = None
    """How tokens look at each other."""
    cross_attention: AttentionSlot | None = None
    """How tokens look at the memory."""
    feedforward: FeedforwardSlot | None = None
    """What happens to each token by itself."""
    residual: ResidualSlot | None = None
    """Where the norm sits and how the skip joins."""
    norm: NormSlot | None = None
    """How vectors are normalised."""
    position: PositionSlot | None = None
    """How this layer knows where a token stands."""
    masks: list[MaskSlot] | None = None
    """What a query may see."""


class LayeredOptions(Options):
    """What stacks of layers of attention and feed-forward have in common."""

    depth: PositiveInt = Field(le=10_000)
    """How many layers."""
    attention: AttentionSlot
    """How tokens look at each other."""
    cross_attention: AttentionSlot | None = None
    """How tokens look at the memory; needed in the decoder of an encoder-decoder, and only there."""
    feedforward: FeedforwardSlot | None = None
    """What happens to each token by itself; left out, layers only attend."""
    residual: ResidualSlot
    """Where the norm sits and how the skip joins."""
    norm: NormSlot | None = None
    """How vectors are normalised; left out, as the model says."""
    position: PositionSlot | None = None
    """How the stack knows where a token stands; left out, as the model says."""
    masks: list[MaskSlot] = Field(default_factory=list)
    """What a query may see: all of these must allow it. Padding is always hidden."""
    final_norm: bool | None = None
    """Whether a norm ends the stack; left out, as the residual wants it."""
    drop_layers: float = Field(default=0.0, ge=0.0, lt=1.0)
    """The share of texts that skip the last layer in training; earlier layers are skipped less, in proportion
    (stochastic depth, Huang et al. 2016)."""
    layers: list[LayerOptions] | None = Field(default=None, min_length=1)
    """A pattern for layers that differ; it is repeated until the depth is reached."""

    @property
    def rounds(self) -> int:
        """How many times a token goes through all layers."""
        return 1

    def plan(self, site: Site) -> list[LayerPlan]:
        """What each layer is made of, the pattern and what the model says filled in."""
        own = {name: getattr(self, name) for name in SLOTS}
        kinds: list[tuple[dict[str, object], dict[str, tuple[str | int, ...]]]] = []
        for number, step in enumerate(self.layers or [LayerOptions()]):
            named = [name for name in SLOTS if getattr(step, name) is not None]
            parts = {name: getattr(step, name) if name in named else own[name] for name in SLOTS}
            paths: dict[str, tuple[str | int, ...]] = {
                name: ("layers", number, name) if name in named else (name,) for name in SLOTS
            }
            inherited = {name: site.inherited.get(name) for name in SLOTS if parts[name] is None}
            kinds += [({**parts, **inherited}, paths)] * step.repeat
        depth = self.depth * self.rounds
        plans = []
        for layer in range(self.depth):
            parts, paths = kinds[layer % len(kinds)]
            # A layer that is used several times is numbered by its last use, where a stack may end.
            here = site.at(layer=depth - self.depth + layer, depth=depth)
            plans.append(LayerPlan(here, parts, paths))
        return plans


class TransformerOptions(LayeredOptions):
    """A stack of layers of attention and feed-forward."""

    use: Literal["transformer"] = "transformer"
