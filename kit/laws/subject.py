"""Subject of a law: a part with one set of options, built in every setting that it supports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

from kit.errors import KitError
from kit.laws.law import BUILT
from kit.laws.option_grid import option_grid
from kit.laws.reference_parts import ReferenceBuilder
from kit.laws.setting import Setting, problems, settings
from kit.plugin.component import Component, Options
from kit.plugin.registry import Registry


class NoOptions(KitError):
    """No set of options of a part can be made up, so that none of its laws can be tried."""


@dataclass(frozen=True)
class Subject:
    """A part with one set of options."""

    component: type[Component]
    options: Options
    builder: ReferenceBuilder
    is_example: bool = False
    """Whether the options are one of the part's own `examples`."""

    @cached_property
    def settings(self) -> list[Setting]:
        """The settings that the part supports; at least one."""
        found = settings(self.builder, self.component, self.options)
        if not found:
            setting = Setting("in an encoder", self.options)
            reasons = "; ".join(str(problem) for problem in problems(self.builder, self.component, setting))
            raise KitError(f"{self.title} fits nowhere in a model: {reasons or 'its capabilities allow no setting'}")
        return found

    @property
    def title(self) -> str:
        """The kind, the name and the options that differ from their defaults."""
        fields = self.component.options_type.model_fields
        given = [
            f"{name}={value.use if isinstance(value, Options) else value!r}"
            for name, value in self.options
            if name != "use" and value != fields[name].default
        ]
        return f"{self.component.kind} {self.component.name()}({', '.join(given)})"

    def build(self, setting: Setting, perturbed: bool = True, seed: int = 0, **sizes: Any) -> Any:
        """Builds the part in float64 and evaluation mode, from a seed.

        perturbed: whether noise is added to initial parameters, since zeros or identities would hide faults.
        """
        torch.manual_seed(seed)
        part = setting.build_context(self.builder, self.component.kind).build(setting.options, setting.dims(**sizes))
        if isinstance(part, nn.Module):
            part = part.double().eval()
            if perturbed:
                perturb(part)
        return part


def perturb(part: nn.Module) -> None:
    """Adds noise to every parameter, deterministically."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in part.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.1 * noise.to(parameter.dtype))


def subjects_of(component: type[Component], registry: Registry) -> tuple[Subject, ...]:
    """Returns the part with each set of options of its option grid; cached. Raises `NoOptions` if there are none."""
    part: Any = component  # as a cache key, which mypy refuses for a class
    return _subjects(part, registry)


@lru_cache(maxsize=64)
def _subjects(component: Any, registry: Registry) -> tuple[Subject, ...]:
    builder = ReferenceBuilder(component, registry)

    def fits(options: Options) -> bool:
        return bool(settings(builder, component, options))

    examples = [_read(builder, component, written) for written in component.examples]
    shrink, example = component.kind in BUILT, examples[0] if examples else None
    chosen = option_grid(component.options_type, builder.reference, fits, shrink, example)
    if not chosen and not examples:
        raise NoOptions(_no_options(builder, component))
    made = [Subject(component, options, builder) for options in chosen]
    return (*made, *(Subject(component, options, builder, is_example=True) for options in examples))


def _read(builder: ReferenceBuilder, component: type[Component], written: Mapping[str, Any]) -> Options:
    try:
        return builder.read(written)
    except ValidationError as error:
        raise KitError(f"{component.__name__}.examples has {dict(written)}: {_first_problem(error)}") from None


def _no_options(builder: ReferenceBuilder, component: type[Component]) -> str:
    """Words why no set of options can be made up."""
    reason = "its required options cannot be guessed"
    try:
        builder.read({})
    except ValidationError as error:
        reason = _first_problem(error)
    return (
        f"{component.__name__} cannot be tried, since no options can be made up: {reason}\n"
        f"    write some in the class: examples = ({{...}},)"
    )


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
