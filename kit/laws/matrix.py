"""Which parts go together: every combination of attention, position, residual, mask and family builds, or is refused.

What refuses it is the same that refuses a recipe, so the matrix follows from what parts declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

from kit.component import Component, Dims, Options, Site
from kit.contracts.attention import Abilities, Attention
from kit.contracts.feedforward import Feedforward
from kit.contracts.mask import Mask
from kit.contracts.position import Position
from kit.contracts.residual import Residual
from kit.errors import Problem
from kit.laws.trying import slot_of, tried
from kit.model.assembly import Assembly
from kit.recipe.bind import bind
from kit.recipe.sections import ModelSection
from kit.registry import Registry

KINDS = ("attention", "position", "residual", "mask")
AXES = (*KINDS, "family")
FAMILIES = ("decoder", "encoder", "encoder-decoder")
WIDTH, VOCABULARY, LENGTH = 16, 11, 64


@dataclass(frozen=True)
class Combination:
    """A name for each axis; no mask is the mask of a text that is read both ways, or causal where it is written."""

    attention: str
    position: str
    residual: str
    mask: str | None
    family: str

    @property
    def sides(self) -> list[str]:
        """What a refusal can name."""
        named = [self.attention, self.position, self.residual, self.mask, *self.family.split("-")]
        return [side for side in named if side is not None]

    def __str__(self) -> str:
        return ", ".join(f"{each.name} {getattr(self, each.name) or 'none'}" for each in fields(self))


@dataclass(frozen=True)
class Pair:
    """What came of two names on two axes, everything else being neutral."""

    first: tuple[str, str]
    second: tuple[str, str]
    works: tuple[str, ...]
    """The families in which it builds."""
    refusals: Mapping[str, tuple[str, ...]]
    """What is said where it does not."""


class Matrix:
    """Combinations of what is installed."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.assembly = Assembly(registry)
        self.check = cache(self._check)
        self.written = cache(self._written)

    def names(self, axis: str) -> list[str]:
        """What there is on an axis."""
        return list(FAMILIES) if axis == "family" else self.registry.names(axis)

    @cached_property
    def neutral(self) -> Combination:
        """Parts that can do everything, so that what is refused beside them is refused for its own sake."""
        return Combination(
            self._first("attention", lambda part: issubclass(part, Attention) and part.abilities == Abilities()),
            self._first("position", lambda part: issubclass(part, Position) and not part.places()),
            self._first("residual", lambda part: issubclass(part, Residual) and part.enter is Residual.enter),
            None,
            FAMILIES[0],
        )

    def pairs(self, one: str, other: str) -> Iterator[Pair]:
        """All pairs of two axes, in every family (or in the one that is an axis)."""
        for first in self.names(one):
            for second in self.names(other):
                chosen = replace(self.neutral, **{one: first, other: second})
                families = [chosen.family] if "family" in (one, other) else FAMILIES
                found = {each: self.check(replace(chosen, family=each)) for each in families}
                works = tuple(each for each, problems in found.items() if not problems)
                refusals = {each: _messages(problems) for each, problems in found.items() if problems}
                yield Pair((one, first), (other, second), works, refusals)

    def recipe(self, chosen: Combination) -> dict[str, Any]:
        """The model of a small recipe."""
        masks = self._masks(chosen)
        stack = {
            "depth": 2,
            "attention": self.written("attention", chosen.attention),
            "feedforward": self.written("feedforward", self._feedforward),
            "residual": self.written("residual", chosen.residual),
        }
        model: dict[str, Any] = {
            "family": chosen.family,
            "width": WIDTH,
            "vocabulary": VOCABULARY,
            "length": LENGTH,
            "position": self.written("position", chosen.position),
            "norm": self.written("norm", self._first("norm", _needs_nothing)),
        }
        for side in chosen.family.split("-"):
            model[side] = {**stack, "masks": masks[side]}
        if chosen.family == "encoder-decoder":
            model["decoder"]["cross_attention"] = self._cross(chosen.attention)
        return model

    def needs(self, chosen: Combination) -> tuple[str, ...]:
        """The facts of each token that the mask wants."""
        return () if chosen.mask is None else self._mask(chosen.mask).needs

    def _check(self, chosen: Combination) -> tuple[Problem, ...]:
        section = bind(ModelSection, self.registry).model_validate(self.recipe(chosen))
        return tuple(self.assembly.check(section))

    def _masks(self, chosen: Combination) -> dict[str, list[dict[str, Any]]]:
        own = [] if chosen.mask is None else [self.written("mask", chosen.mask)]
        writing = own
        if chosen.mask is None or not self._mask(chosen.mask).writable:
            writing = [self.written("mask", self._causal), *own]
        return {"encoder": own, "decoder": writing}

    def _mask(self, name: str) -> Mask:
        part = self.registry.find("mask", name).component
        mask: Mask = self.assembly.build(self._options(part), Dims(WIDTH, length=LENGTH), Site(self.assembly))
        return mask

    def _cross(self, attention: str) -> dict[str, Any]:
        """The same attention where it can look at a memory, else the neutral one."""
        part = self.registry.find("attention", attention).component
        assert issubclass(part, Attention)
        return self.written("attention", attention if part.abilities.reads_memory else self.neutral.attention)

    @property
    def _causal(self) -> str:
        return self._first("mask", lambda part: issubclass(part, Mask) and part.shape == "causal")

    @property
    def _feedforward(self) -> str:
        return self._first(
            "feedforward", lambda part: issubclass(part, Feedforward) and not part.mixes_tokens and _needs_nothing(part)
        )

    def _first(self, kind: str, suits: Any) -> str:
        return next(part.name for part in self.registry.components(kind) if suits(part.component))

    def _written(self, kind: str, name: str) -> dict[str, Any]:
        """The part with small sizes, as a recipe writes it."""
        return {**plain(self._options(self.registry.find(kind, name).component)), "use": name}

    def _options(self, part: type[Component]) -> Options:
        """The first that some place of a small model takes."""
        sites = [Site(self.assembly, stack=side, causal=side == "decoder") for side in ("encoder", "decoder")]
        dims = Dims(WIDTH, heads=4, head_width=4, vocabulary=VOCABULARY, length=LENGTH)

        def fits(options: Options) -> bool:
            return any(not list(part.check(options, dims, site)) for site in sites)

        return tried(part.options_type, self._fill, fits)[0]

    def _fill(self, kind: str) -> Options | None:
        name = self._causal if kind == "mask" else self._first(kind, _needs_nothing)
        return self.registry.find(kind, name).component.options_type.model_validate({"use": name})


def plain(options: Options) -> dict[str, Any]:
    """Options as a recipe would write them: what was set, and `use` always."""
    written: dict[str, Any] = {"use": options.use}
    for name in options.model_fields_set:
        value = getattr(options, name)
        if isinstance(value, list):
            written[name] = [plain(item) if isinstance(item, Options) else item for item in value]
        else:
            written[name] = plain(value) if isinstance(value, Options) else value
    return written


def _messages(problems: tuple[Problem, ...]) -> tuple[str, ...]:
    return tuple(problem.message for problem in problems)


def _needs_nothing(part: type[Component]) -> bool:
    fields_of = part.options_type.model_fields.values()
    return not any(field.is_required() or slot_of(field) for field in fields_of)
