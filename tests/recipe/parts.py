"""A small set of parts and a registry of them, so that the tests of recipes need no plugin."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

from pydantic import Field, PositiveInt, field_validator

from kit.plugin.component import AttentionSlot, Component, FeedforwardSlot, MaskSlot, NormSlot, Options
from kit.plugin.discovery import LoadedPlugin, Registered
from kit.plugin.registry import Registry


def part(kind: str, options: type[Options], *, default: bool = False) -> type[Component]:
    """A component of a kind, with nothing in it but its options."""
    members: dict[str, Any] = {"kind": kind, "options_type": options, "default": default}
    return type(options.__name__.removesuffix("Options"), (Component,), members)


class Scale(Enum):
    ROOT = "root"
    NONE = "none"


class SoftmaxOptions(Options):
    """Scaled dot products."""

    use: Literal["softmax"] = "softmax"
    heads: PositiveInt = 8
    """How many heads there are."""
    kv_heads: PositiveInt | None = None
    """How many heads share keys and values."""
    scale: Scale = Scale.ROOT
    """What the products are divided by."""
    window: tuple[int, int] = (0, 0)
    """How far back and ahead a query looks."""

    @field_validator("kv_heads")
    @classmethod
    def _odd_groups(cls, kv_heads: int | None) -> int | None:
        if kv_heads == 13:
            raise ValueError("13 kv_heads bring bad luck")
        if kv_heads == 666:
            raise KeyError("kv_heads")
        return kv_heads


class AdditiveOptions(Options):
    """A small network scores each pair."""

    use: Literal["additive"] = "additive"
    hidden: PositiveInt
    """The width of that network."""


class LayerOptions(Options):
    """Mean and variance."""

    use: Literal["layer"] = "layer"
    epsilon: float = Field(default=1e-5, gt=0.0)
    """What keeps the division finite."""
    bias: bool = True
    """Whether something is added."""


class RmsOptions(Options):
    """The root mean square alone."""

    use: Literal["rms"] = "rms"
    epsilon: float = Field(default=1e-6, gt=0.0)
    """What keeps the division finite."""


class ReluOptions(Options):
    """Two layers and what is positive between them."""

    use: Literal["relu"] = "relu"
    ffn_multiplier: float = Field(default=4.0, gt=0)
    """How much wider the middle is."""
    hidden: PositiveInt | Literal["auto"] = "auto"
    """The width of the middle, or auto."""


class CausalOptions(Options):
    """Nothing ahead."""

    use: Literal["causal"] = "causal"


class AnyOptions(Options):
    """Allowed where one of several masks allows it."""

    use: Literal["any"] = "any"
    masks: list[MaskSlot] = Field(min_length=1)
    """The masks of which one is enough."""


class TransformerOptions(Options):
    """Layers of attention and feed-forward."""

    use: Literal["transformer"] = "transformer"
    depth: PositiveInt = 6
    """How many layers there are."""
    attention: AttentionSlot = SoftmaxOptions()
    """What mixes the positions."""
    feedforward: FeedforwardSlot | None = None
    """What transforms each position."""
    norm: NormSlot | None = None
    """The norm of this stack."""
    masks: list[MaskSlot] = Field(default=[])
    """What is hidden."""
    layers: tuple[LayerPattern, ...] = ()
    """Layers that differ."""
    named: dict[str, NormSlot] = Field(default={})
    """Norms by name."""


class LayerPattern(Options):
    """Some equal layers."""

    use: Literal["pattern"] = "pattern"
    repeat: PositiveInt = 1
    attention: AttentionSlot | None = None


TransformerOptions.model_rebuild()


class LstmOptions(Options):
    """Gates."""

    use: Literal["lstm"] = "lstm"
    depth: PositiveInt = 1
    """How many layers there are."""


class ScaledOptions(Options):
    """Vectors times a constant."""

    use: Literal["scaled"] = "scaled"


ALL = (
    part("attention", SoftmaxOptions, default=True),
    part("attention", AdditiveOptions),
    part("norm", LayerOptions, default=True),
    part("norm", RmsOptions),
    part("feedforward", ReluOptions, default=True),
    part("mask", CausalOptions),
    part("mask", AnyOptions),
    part("stack", TransformerOptions, default=True),
    part("stack", LstmOptions),
    part("embedding", ScaledOptions, default=True),
)


def plugin(distribution: str, *parts: type[Component]) -> LoadedPlugin:
    """A plugin of one distribution that brings these parts."""
    registered = tuple(Registered(it, it.kind, it.name(), distribution, "1.0", distribution) for it in parts)
    return LoadedPlugin(distribution, distribution, "1.0", object, "loaded", parts=registered)


def registry(*others: LoadedPlugin) -> Registry:
    """A registry of every part in this file, and of other plugins."""
    return Registry([plugin("kit-test", *ALL), *others], kinds=["attention", "head", "norm", "position"])
