"""The places in a model where a part under trial can stand, and what surrounds it there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from kit.component import Component, Dims, Options, Site
from kit.contracts.attention import Attention
from kit.contracts.mask import Both, Mask
from kit.contracts.position import Place, Position
from kit.contracts.stack import Stack
from kit.errors import Problem
from kit.laws.bench import Bench
from kit.laws.surroundings import Gaps, PlainMask, PlainPosition
from kit.laws.trying import slot_of

WIDTH = 16
MEMORY = 12
HEADS = 4
VOCABULARY = 11
LENGTH = 256
SYMBOLS = ("<pad>", "<a>", "<b>", "<c>", "a", "an", "and", "ant", "bee", "über", "zebra")


@dataclass(frozen=True)
class Setting:
    """One place."""

    name: str
    options: Options
    causal: bool = False
    memory: bool = False
    mask: Mask | None = None
    places: frozenset[Place] = field(default=frozenset())
    """Where a position is at work around an attention."""

    def site(self, bench: Bench, kind: str) -> Site:
        """Where in a model of one layer this is."""
        stack = "decoder" if self.causal else "encoder"
        norm = bench.plain("norm")
        assert norm is not None
        return Site(
            bench,
            ("model", stack, kind),
            stack=stack,
            role="cross_attention" if self.memory and kind == "attention" else kind,
            depths={stack: 1},
            sublayers=("attention", "feedforward"),
            causal=self.causal,
            inherited={"norm": norm},
        )

    def dims(self, **changes: Any) -> Dims:
        """Small sizes."""
        sizes = Dims(
            WIDTH,
            memory=MEMORY if self.memory else None,
            heads=HEADS,
            head_width=WIDTH // HEADS,
            vocabulary=VOCABULARY,
            symbols=SYMBOLS,
            length=LENGTH,
        )
        return replace(sizes, **changes)

    def position(self, dims: Dims, component: type[Attention]) -> Position | None:
        """A position that uses the places of this setting."""
        if not self.places:
            return None
        return PlainPosition(self.places, component.head_shape(self.options, dims)[0])


def settings(bench: Bench, component: type[Component], options: Options) -> list[Setting]:
    """Every place where a part with these options may stand, by what it declares and by its own check."""
    if issubclass(component, Attention):
        wanted = _around_attention(component, options)
    elif issubclass(component, Stack):
        wanted = _stacks(bench, component, options)
    else:
        sides = (Setting("in an encoder", options), Setting("in a decoder", options, causal=True))
        wanted = iter(sides[:1] if component.kind in ("mask", "embedding", "head", "norm") else sides)
    found: dict[tuple[str, bool], Setting] = {}
    for setting in wanted:
        key = (setting.name, setting.memory)
        if key not in found and not problems(bench, component, setting):
            found[key] = setting
    return list(found.values())


def problems(bench: Bench, component: type[Component], setting: Setting) -> list[Problem]:
    """What stands against it there."""
    return list(component.check(setting.options, setting.dims(), setting.site(bench, component.kind)))


def _around_attention(component: type[Attention], options: Options) -> Iterator[Setting]:
    able = component.abilities
    causal, gaps = PlainMask(), Gaps()
    masked = bool(able.masks)
    used = able.positions & {"rotate", "bias", "interact"}
    if able.reads_self:
        yield Setting("in an encoder", options)
        if used:
            yield Setting("in an encoder with positions", options, places=used)
        if masked:
            yield Setting("under a causal mask", options, mask=causal)
        if "pairs" in able.masks:
            yield Setting("under a mask with gaps", options, mask=gaps, places=used)
        if able.steps and masked:
            yield Setting("in a decoder", options, causal=True, mask=causal)
        if able.steps and masked and used:
            yield Setting("in a decoder with positions", options, causal=True, mask=causal, places=used)
        if able.steps and "pairs" in able.masks:
            both = Both(causal, gaps)
            yield Setting("in a decoder under a mask with gaps", options, causal=True, mask=both, places=used)
    if able.reads_memory:
        yield Setting("looking at a memory", options, causal=able.steps, memory=True)


def _stacks(bench: Bench, component: type[Stack], options: Options) -> Iterator[Setting]:
    """As an encoder, a decoder and a decoder with a memory; slots are filled as far as the stack lets them."""
    empty = {
        name: slot
        for name, each in type(options).model_fields.items()
        if (slot := slot_of(each)) is not None and not getattr(options, name)
    }
    sides: list[tuple[str, dict[str, Any]]] = [("as an encoder", {}), ("as a decoder", {"causal": True})]
    if component.reads_memory:
        sides.append(("as a decoder with a memory", {"causal": True, "memory": True}))
    for name, side in sides:
        for count in range(len(empty), -1, -1):
            for chosen in combinations(empty, count):
                filled = {
                    each: [bench.plain(empty[each][0])] if empty[each][1] else bench.plain(empty[each][0])
                    for each in chosen
                }
                if None not in filled.values():
                    yield Setting(name, options.model_copy(update=filled), **side)
