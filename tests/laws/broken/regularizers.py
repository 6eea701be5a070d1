"""Regularizers that break one law each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit.contracts.regularizer import Regularizer, RegularizerOptions


class BrokenRegularizerOptions(RegularizerOptions):
    use: Literal["broken"] = "broken"


class BrokenRegularizer(Regularizer):
    """A gate for each head, all half open."""

    options_type = BrokenRegularizerOptions
    breaks: tuple[str, ...] = ()

    def __init__(self, options: Any, dims: Any, build_context: Any) -> None:
        super().__init__(options, dims, build_context)
        self.held = nn.ParameterDict()

    def attach(self, heads: Mapping[str, int]) -> None:
        super().attach(heads)
        for name, count in heads.items():
            self.held[name.replace(".", "_")] = nn.Parameter(torch.zeros(count))

    def gates(self) -> Mapping[str, Tensor]:
        return {name: self.held[name.replace(".", "_")].sigmoid() for name in self.head_counts}


class OpensTooFar(BrokenRegularizer):
    breaks = ("regularizer.gates",)

    def gates(self) -> Mapping[str, Tensor]:
        return {name: 3 * value for name, value in super().gates().items()}


class KeepsTheFirstHeads(BrokenRegularizer):
    """Whichever heads are left."""

    breaks = ("regularizer.pruned_heads",)

    def select_heads(self, chosen: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        sizes = {f"held.{name.replace('.', '_')}": len(heads) for name, heads in chosen.items()}
        return {name: value[: sizes[name]] for name, value in self.state_dict().items()}
