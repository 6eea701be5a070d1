"""A part under trial: its class, one set of options, and ways to build it where it may stand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import nn

from kit.component import Component, Options
from kit.errors import KitError
from kit.laws.bench import Bench
from kit.laws.law import BUILT
from kit.laws.setting import Setting, problems, settings
from kit.laws.trying import tried
from kit.registry import Registry


@dataclass(frozen=True)
class Subject:
    """One part with one set of options."""

    component: type[Component]
    options: Options
    bench: Bench

    @cached_property
    def settings(self) -> list[Setting]:
        """Where it may stand; at least one."""
        found = settings(self.bench, self.component, self.options)
        if not found:
            setting = Setting("in an encoder", self.options)
            reasons = "; ".join(str(problem) for problem in problems(self.bench, self.component, setting))
            raise KitError(f"{self.title} can stand nowhere: {reasons or 'its abilities leave no place'}")
        return found

    @property
    def title(self) -> str:
        """Kind, name, and the options that are not the default."""
        plain = self.component.options_type.model_fields
        given = [
            f"{name}={value.use if isinstance(value, Options) else value!r}"
            for name, value in self.options
            if name != "use" and value != plain[name].default
        ]
        return f"{self.component.kind} {self.component.part_name()}({', '.join(given)})"

    def build(self, setting: Setting, stirred: bool = True, seed: int = 0, **sizes: Any) -> Any:
        """The part in float64, not in training, the same every time.

        stirred: whether parameters are moved away from where they begin, so that no zero or identity hides a fault.
        """
        torch.manual_seed(seed)
        part = setting.site(self.bench, self.component.kind).build(setting.options, setting.dims(**sizes))
        if isinstance(part, nn.Module):
            part = part.double().eval()
            if stirred:
                stir(part)
        return part


def stir(part: nn.Module) -> None:
    """Move every parameter a little, the same way every time."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in part.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.1 * noise.to(parameter.dtype))


def subjects_of(component: type[Component], registry: Registry) -> tuple[Subject, ...]:
    """The part with each set of options that is worth trying; worked out once."""
    part: Any = component  # as a key, which mypy does not take a class for
    return _subjects(part, registry)


@lru_cache(maxsize=64)
def _subjects(component: Any, registry: Registry) -> tuple[Subject, ...]:
    bench = Bench(component, registry)

    def fits(options: Options) -> bool:
        return bool(settings(bench, component, options))

    chosen = tried(component.options_type, bench.plain, fits, shrink=component.kind in BUILT)
    chosen += [bench.read(written) for written in component.examples]
    return tuple(Subject(component, options, bench) for options in chosen)
