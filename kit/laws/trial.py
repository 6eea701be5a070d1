"""One run of a part of any kind, for laws that hold for every kind: how to build it and what to give it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kit.laws import runs
from kit.laws.setting import Setting
from kit.laws.subject import Subject

Call = Callable[..., Tensor]


@dataclass(frozen=True)
class Trial:
    """A part in a setting, with inputs that it can be run on."""

    subject: Subject
    setting: Setting
    inputs: tuple[Tensor, ...]
    """Numbers that have gradients."""
    call: Call
    """Runs a part on them: call(part, *inputs)."""

    @property
    def name(self) -> str:
        """Where it stands."""
        return self.setting.name

    def build(self, **options: Any) -> nn.Module:
        """The part."""
        part: nn.Module = self.subject.build(self.setting, **options)
        return part

    def run(self, part: nn.Module, dtype: torch.dtype = torch.float64) -> Tensor:
        """What it gives."""
        return self.call(part, *(each.to(dtype).requires_grad_(torch.is_grad_enabled()) for each in self.inputs))


def trials(subject: Subject) -> Iterator[Trial]:
    """One for each setting."""
    for setting in subject.settings:
        inputs, call = runs.RUNS[subject.component.kind](subject, setting)
        yield Trial(subject, setting, inputs, call)
