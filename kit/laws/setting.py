"""Settings of a part under test: encoder, decoder or cross-attention, with masks and positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from kit.contracts.attention import Attention
from kit.contracts.mask import Both, Mask
from kit.contracts.position import Location, Position
from kit.contracts.stack import Stack
from kit.errors import Problem
from kit.laws.option_grid import slot_of
from kit.laws.reference_parts import GapsMask, ReferenceBuilder, ReferenceMask, ReferencePosition
from kit.plugin.component import BuildContext, Component, Dims, Options

WIDTH = 16
MEMORY = 12
HEADS = 4
VOCABULARY = 11
LENGTH = 256
SYMBOLS = ("<pad>", "<a>", "<b>", "<c>", "a", "an", "and", "ant", "bee", "über", "zebra")


@dataclass(frozen=True)
class Setting:
    """One use of a part in a model."""

    name: str
    options: Options
    causal: bool = False
    memory: bool = False
    mask: Mask | None = None
    locations: frozenset[Location] = field(default=frozenset())
    """The locations at which a positional encoding is applied around attention."""

    def build_context(self, builder: ReferenceBuilder, kind: str) -> BuildContext:
        """Returns the build context in a model of one layer."""
        stack = "decoder" if self.causal else "encoder"
        norm = builder.reference("norm")
        assert norm is not None
        return BuildContext(
            builder,
            ("model", stack, kind),
            stack=stack,
            role="cross_attention" if self.memory and kind == "attention" else kind,
            depths={stack: 1},
            sublayers=("attention", "feedforward"),
            causal=self.causal,
            inherited={"norm": norm},
        )

    def dims(self, **changes: Any) -> Dims:
        """Returns small dimensions of a model."""
        sizes = Dims(
            WIDTH,
            memory=MEMORY if self.memory else None,
            heads=HEADS,
            head_dim=WIDTH // HEADS,
            vocabulary=VOCABULARY,
            symbols=SYMBOLS,
            length=LENGTH,
        )
        return replace(sizes, **changes)

    def position(self, dims: Dims, component: type[Attention]) -> Position | None:
        """Builds a position part that is applied at the locations of this setting."""
        if not self.locations:
            return None
        return ReferencePosition(self.locations, component.head_shape(self.options, dims)[0])


def settings(builder: ReferenceBuilder, component: type[Component], options: Options) -> list[Setting]:
    """Returns all settings that a part with these options supports, by its capabilities and its check."""
    if issubclass(component, Attention):
        candidates = _attention_settings(component, options)
    elif issubclass(component, Stack):
        candidates = _stack_settings(builder, component, options)
    else:
        towers = (Setting("in an encoder", options), Setting("in a decoder", options, causal=True))
        candidates = iter(towers[:1] if component.kind in ("mask", "embedding", "head", "norm") else towers)
    found: dict[tuple[str, bool], Setting] = {}
    for setting in candidates:
        key = (setting.name, setting.memory)
        if key not in found and not problems(builder, component, setting):
            found[key] = setting
    return list(found.values())


def problems(builder: ReferenceBuilder, component: type[Component], setting: Setting) -> list[Problem]:
    """Returns the objections of the part to a setting."""
    return list(component.check(setting.options, setting.dims(), setting.build_context(builder, component.kind)))


def _attention_settings(component: type[Attention], options: Options) -> Iterator[Setting]:
    capabilities = component.capabilities
    causal, gaps = ReferenceMask(), GapsMask()
    masked = bool(capabilities.masks)
    locations = capabilities.positions & {"rotate", "bias", "content_bias"}
    if capabilities.reads_self:
        yield Setting("in an encoder", options)
        if locations:
            yield Setting("in an encoder with positions", options, locations=locations)
        if masked:
            yield Setting("under a causal mask", options, mask=causal)
        if "pairs" in capabilities.masks:
            yield Setting("under a mask with gaps", options, mask=gaps, locations=locations)
        if capabilities.incremental and masked:
            yield Setting("in a decoder", options, causal=True, mask=causal)
        if capabilities.incremental and masked and locations:
            yield Setting("in a decoder with positions", options, causal=True, mask=causal, locations=locations)
        if capabilities.incremental and "pairs" in capabilities.masks:
            both = Both(causal, gaps)
            yield Setting("in a decoder under a mask with gaps", options, causal=True, mask=both, locations=locations)
    if capabilities.reads_memory:
        yield Setting("in cross-attention", options, causal=capabilities.incremental, memory=True)


def _stack_settings(builder: ReferenceBuilder, component: type[Stack], options: Options) -> Iterator[Setting]:
    """Yields an encoder, a decoder and a decoder with cross-attention, with optional slots filled where possible."""
    empty = {
        name: slot
        for name, each in type(options).model_fields.items()
        if (slot := slot_of(each)) is not None and not getattr(options, name)
    }
    towers: list[tuple[str, dict[str, Any]]] = [("as an encoder", {}), ("as a decoder", {"causal": True})]
    if component.reads_memory:
        towers.append(("as a decoder with cross-attention", {"causal": True, "memory": True}))
    for name, side in towers:
        for count in range(len(empty), -1, -1):
            for chosen in combinations(empty, count):
                filled = {
                    each: [builder.reference(empty[each][0])] if empty[each][1] else builder.reference(empty[each][0])
                    for each in chosen
                }
                if None not in filled.values():
                    yield Setting(name, options.model_copy(update=filled), **side)
