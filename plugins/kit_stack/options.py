"""Options of stacks of Transformer layers, and the expansion of a layer pattern over the depth."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field, PositiveInt

from kit import (
    AttentionSlot,
    BuildContext,
    FeedforwardSlot,
    LayerPlan,
    MaskSlot,
    NormSlot,
    Options,
    PositionSlot,
    ResidualSlot,
    Section,
)


class LayerOptions(Section):
    """One entry of a layer pattern; what it names overrides the stack."""

    repeat: PositiveInt = Field(default=1, le=10_000)
    """Consecutive layers of this kind."""
    attention: AttentionSlot | None = None
    """Self-attention."""
    cross_attention: AttentionSlot | None = None
    """Cross-attention."""
    feedforward: FeedforwardSlot | None = None
    """Feed-forward sublayer."""
    residual: ResidualSlot | None = None
    """Residual connection: norm placement and scaling."""
    norm: NormSlot | None = None
    """Norm."""
    position: PositionSlot | None = None
    """Positional encoding."""
    masks: list[MaskSlot] | None = None
    """Attention masks of self-attention."""


class LayeredOptions(Options):
    """Options of all stacks of attention and feed-forward layers."""

    depth: PositiveInt = Field(le=10_000)
    """Number of layers."""
    attention: AttentionSlot
    """Self-attention."""
    cross_attention: AttentionSlot | None = None
    """Cross-attention to the encoder; needed in the decoder of an encoder-decoder, and only there."""
    feedforward: FeedforwardSlot | None = None
    """Feed-forward sublayer; left out, layers only attend."""
    residual: ResidualSlot
    """Residual connection: norm placement and scaling."""
    norm: NormSlot | None = None
    """Norm; left out, the model's."""
    position: PositionSlot | None = None
    """Positional encoding; left out, the model's."""
    masks: list[MaskSlot] = Field(default_factory=list)
    """Attention masks of self-attention, all of which must allow a pair. Padding is always hidden."""
    final_norm: bool | None = None
    """Whether the stack ends in a norm; left out, by the residual."""
    drop_layers: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Stochastic depth (Huang et al. 2016): probability that a sequence skips the last layer in training, falling
    linearly towards the first layer."""
    layers: list[LayerOptions] | None = Field(default=None, min_length=1)
    """Pattern of layers that differ, repeated until the depth is reached."""

    @property
    def rounds(self) -> int:
        """Passes through all layers."""
        return 1

    def layer_plans(self, build_context: BuildContext) -> list[LayerPlan]:
        """The parts of every layer: the pattern repeated over the depth, empty slots filled from the stack's own."""
        shared = LayerPlan.from_options(self, build_context)
        kinds: list[LayerPlan] = []
        for number, step in enumerate(self.layers or [LayerOptions()]):
            named = [slot for slot in shared.parts if getattr(step, slot) is not None]
            parts = {**shared.parts, **{slot: getattr(step, slot) for slot in named}}
            paths = {**shared.paths, **{slot: ("layers", number, slot) for slot in named}}
            kinds += [replace(shared, parts=parts, paths=paths)] * step.repeat
        depth = self.depth * self.rounds
        # A layer that is used several times has the number of its last use, where the stack may end.
        return [
            replace(
                kinds[layer % len(kinds)], build_context=build_context.at(layer=depth - self.depth + layer, depth=depth)
            )
            for layer in range(self.depth)
        ]


class TransformerOptions(LayeredOptions):
    """A stack of layers of attention and feed-forward."""

    use: Literal["transformer"] = "transformer"
