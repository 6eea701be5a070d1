"""A stack that goes through the same layers several times: Universal Transformers (Dehghani et al. 2019).

There is no adaptive halting: every token takes every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import Dims, Layout, Memory, Problem, Scope, Site, State, Watcher
from kit_stack.checks import check_stack, keeps_streams
from kit_stack.options import LayeredOptions
from kit_stack.transformer import TransformerStack


class UniversalOptions(LayeredOptions):
    """A stack whose layers are used again in every step."""

    use: Literal["universal"] = "universal"
    depth: PositiveInt = Field(default=1, le=10_000)
    """How many layers there are to be shared."""
    steps: PositiveInt = Field(default=6, le=10_000)
    """How many times a text goes through them."""
    step_vectors: Literal["waves", "learned", "none"] = "waves"
    """What tells the steps apart: sines and cosines (the paper), a trained vector a step, or nothing."""
    positions: Literal["every_step", "once"] = "every_step"
    """Whether positions are put into the vectors before every step (the paper), or only at the beginning."""

    @property
    def rounds(self) -> int:
        """The steps."""
        return self.steps


class RoundWatcher(Watcher):
    """Shows a layer that is used several times as one layer a use."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.shift = 0

    def weights(self, site: Site, weights_BHQK: Tensor, scope: Scope) -> None:
        """Pass on, with the number of the use."""
        self.watcher.weights(self._site(site), weights_BHQK, scope)

    def values(self, site: Site, v_BGKF: Tensor, scope: Scope) -> None:
        """Pass on, with the number of the use."""
        self.watcher.values(self._site(site), v_BGKF, scope)

    def without_weights(self, site: Site, reason: str) -> None:
        """Pass on, with the number of the use."""
        self.watcher.without_weights(self._site(site), reason)

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        """Pass on, with the number of the use."""
        return self.watcher.heads(self._site(site), out_BHQF)

    def _site(self, site: Site) -> Site:
        return replace(site, layer=site.layer + self.shift)


class UniversalStack(TransformerStack):
    """Depth in time instead of in parameters."""

    options_type = UniversalOptions
    options: UniversalOptions
    default = False
    step_table: Tensor | None

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        if options.step_vectors == "learned":
            self.step_table = nn.Parameter(torch.empty(options.steps, dims.width))
            nn.init.normal_(self.step_table, std=dims.width**-0.5)
        else:
            waves = step_waves(options.steps, dims.width) if options.step_vectors == "waves" else None
            self.register_buffer("step_table", waves, persistent=False)

    @classmethod
    def depth_of(cls, options: Any) -> int:
        """Every use of a layer counts."""
        return int(options.depth * options.steps)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """As any stack; and marks are for plain vectors."""
        yield from check_stack(options, dims, site)
        plan = options.plan(site)[0]
        if keeps_streams(plan) and (options.step_vectors != "none" or options.positions == "every_step"):
            yield plan.at("residual").problem(
                f"a universal stack marks vectors before every step, and the residual {plan.residual.part_name()} "
                "turns them into several streams",
                hint="choose another residual, or write step_vectors: none and positions: once",
            )

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        memory: Memory | None = None,
        state: State | None = None,
        watcher: Watcher | None = None,
    ) -> Tensor:
        """x: [..., width] as `layout` carries it."""
        return super().forward(x, layout, memory, state, None if watcher is None else RoundWatcher(watcher))

    def begin_round(self, number: int, x: Tensor, layout: Layout, watcher: Watcher | None) -> Tensor:
        """Mark the vectors with positions again, and with the step."""
        if isinstance(watcher, RoundWatcher):
            watcher.shift = (number + 1 - self.options.steps) * len(self.layers)
        if number and self.options.positions == "every_step":
            x = self.embed(x, layout.at_flat)
        return x if self.step_table is None else x + self.step_table[number].to(x.dtype)


def step_waves(steps: int, width: int) -> Tensor:
    """Sines and cosines side by side, as positions have them: [steps, width]."""
    pairs = torch.arange(0, width + width % 2, 2, dtype=torch.float64)
    angles = torch.arange(steps, dtype=torch.float64)[:, None] * 10_000.0 ** (-pairs / width)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[:, :width].float()
