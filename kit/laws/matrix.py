"""Compatibility matrix: the combinations of attention, position, residual, mask and family that can be built.

Combinations are refused by the checks that refuse a recipe, so that the matrix follows from declared capabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

from kit.contracts.attention import Attention, Capabilities
from kit.contracts.mask import Mask
from kit.contracts.position import Position
from kit.contracts.sublayer import Feedforward, Residual
from kit.errors import Problem
from kit.laws.option_grid import option_grid, slot_of
from kit.model.builder import ModelBuilder
from kit.plugin.component import BuildContext, Component, Dims, Options
from kit.plugin.registry import Registry
from kit.recipe.sections import ModelSection
from kit.recipe.slot_schema import bind

KINDS = ("attention", "position", "residual", "mask")
AXES = (*KINDS, "family")
FAMILIES = ("decoder", "encoder", "encoder-decoder")
WIDTH, VOCABULARY, LENGTH = 16, 11, 64


@dataclass(frozen=True)
class Combination:
    """One name on each axis; without a mask, attention is bidirectional in an encoder and causal in a decoder."""

    attention: str
    position: str
    residual: str
    mask: str | None
    family: str

    @property
    def names_in_refusals(self) -> list[str]:
        """The names that the message of a refusal may contain."""
        named = [self.attention, self.position, self.residual, self.mask, *self.family.split("-")]
        return [name for name in named if name is not None]

    def __str__(self) -> str:
        return ", ".join(f"{each.name} {getattr(self, each.name) or 'none'}" for each in fields(self))


@dataclass(frozen=True)
class Pair:
    """The verdict on two names of two axes, with neutral parts on the other axes."""

    first: tuple[str, str]
    second: tuple[str, str]
    works: tuple[str, ...]
    """The families in which the pair can be built."""
    refusals: Mapping[str, tuple[str, ...]]
    """The error messages in the other families."""


class Matrix:
    """Builds and checks combinations of installed parts."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.builder = ModelBuilder(registry)
        self.check = cache(self._check)
        self.section_of = cache(self._section_of)

    def names(self, axis: str) -> list[str]:
        """Returns the names on an axis."""
        return list(FAMILIES) if axis == "family" else self.registry.names(axis)

    @cached_property
    def neutral(self) -> Combination:
        """The combination of parts with all capabilities, so that refusals are due to the parts that replace them."""
        return Combination(
            self._first("attention", lambda part: issubclass(part, Attention) and part.capabilities == Capabilities()),
            self._first("position", lambda part: issubclass(part, Position) and not part.locations),
            self._first(
                "residual", lambda part: issubclass(part, Residual) and part.begin_stream is Residual.begin_stream
            ),
            None,
            FAMILIES[0],
        )

    def pairs(self, one: str, other: str) -> Iterator[Pair]:
        """Yields all pairs of two axes, checked in every family, or in that of the pair."""
        for first in self.names(one):
            for second in self.names(other):
                chosen = replace(self.neutral, **{one: first, other: second})
                families = [chosen.family] if "family" in (one, other) else FAMILIES
                found = {each: self.check(replace(chosen, family=each)) for each in families}
                works = tuple(each for each, problems in found.items() if not problems)
                refusals = {each: _messages(problems) for each, problems in found.items() if problems}
                yield Pair((one, first), (other, second), works, refusals)

    def recipe(self, chosen: Combination) -> dict[str, Any]:
        """Returns the model section of a small recipe."""
        masks = self._masks(chosen)
        stack = {
            "depth": 2,
            "attention": self.section_of("attention", chosen.attention),
            "feedforward": self.section_of("feedforward", self._feedforward),
            "residual": self.section_of("residual", chosen.residual),
        }
        model: dict[str, Any] = {
            "family": chosen.family,
            "width": WIDTH,
            "vocabulary": VOCABULARY,
            "length": LENGTH,
            "position": self.section_of("position", chosen.position),
            "norm": self.section_of("norm", self._first("norm", _all_optional)),
        }
        for tower in chosen.family.split("-"):
            model[tower] = {**stack, "masks": masks[tower]}
        if chosen.family == "encoder-decoder":
            model["decoder"]["cross_attention"] = self._cross(chosen.attention)
        return model

    def needs(self, chosen: Combination) -> tuple[str, ...]:
        """Returns the token features that the mask reads."""
        return () if chosen.mask is None else self._mask(chosen.mask).needs

    def _check(self, chosen: Combination) -> tuple[Problem, ...]:
        section = bind(ModelSection, self.registry).model_validate(self.recipe(chosen))
        return tuple(self.builder.check(section))

    def _masks(self, chosen: Combination) -> dict[str, list[dict[str, Any]]]:
        own = [] if chosen.mask is None else [self.section_of("mask", chosen.mask)]
        decoder = own
        if chosen.mask is None or not self._mask(chosen.mask).is_autoregressive:
            decoder = [self.section_of("mask", self._causal), *own]
        return {"encoder": own, "decoder": decoder}

    def _mask(self, name: str) -> Mask:
        part = self.registry.find("mask", name).component
        mask: Mask = self.builder.build(self._options(part), Dims(WIDTH, length=LENGTH), BuildContext(self.builder))
        return mask

    def _cross(self, attention: str) -> dict[str, Any]:
        """Returns the same attention if it supports cross-attention, else the neutral one."""
        part = self.registry.find("attention", attention).component
        assert issubclass(part, Attention)
        return self.section_of("attention", attention if part.capabilities.reads_memory else self.neutral.attention)

    @property
    def _causal(self) -> str:
        return self._first("mask", lambda part: issubclass(part, Mask) and part.shape == "causal")

    @property
    def _feedforward(self) -> str:
        return self._first(
            "feedforward", lambda part: issubclass(part, Feedforward) and not part.mixes_tokens and _all_optional(part)
        )

    def _first(self, kind: str, predicate: Any) -> str:
        return next(part.name for part in self.registry.components(kind) if predicate(part.component))

    def _section_of(self, kind: str, name: str) -> dict[str, Any]:
        """Returns a part with small sizes as plain data, as in a recipe."""
        return {**plain_data(self._options(self.registry.find(kind, name).component)), "use": name}

    def _options(self, part: type[Component]) -> Options:
        """Returns the first set of options that a small model accepts."""
        contexts = [
            BuildContext(self.builder, stack=tower, causal=tower == "decoder") for tower in ("encoder", "decoder")
        ]
        dims = Dims(WIDTH, heads=4, head_dim=4, vocabulary=VOCABULARY, length=LENGTH)

        def fits(options: Options) -> bool:
            return any(not list(part.check(options, dims, build_context)) for build_context in contexts)

        return option_grid(part.options_type, self._fill, fits)[0]

    def _fill(self, kind: str) -> Options | None:
        name = self._causal if kind == "mask" else self._first(kind, _all_optional)
        return self.registry.find(kind, name).component.options_type.model_validate({"use": name})


def plain_data(options: Options) -> dict[str, Any]:
    """Returns options as plain data, as in a recipe: `use` and the values that were set."""
    data: dict[str, Any] = {"use": options.use}
    for name in options.model_fields_set:
        value = getattr(options, name)
        if isinstance(value, list):
            data[name] = [plain_data(item) if isinstance(item, Options) else item for item in value]
        else:
            data[name] = plain_data(value) if isinstance(value, Options) else value
    return data


def _messages(problems: tuple[Problem, ...]) -> tuple[str, ...]:
    return tuple(problem.message for problem in problems)


def _all_optional(part: type[Component]) -> bool:
    fields_of = part.options_type.model_fields.values()
    return not any(field.is_required() or slot_of(field) for field in fields_of)
