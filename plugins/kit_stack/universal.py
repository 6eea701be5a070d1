"""Stack with weights shared over depth: Universal Transformers (Dehghani et al. 2019), without adaptive halting.

Every token takes every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import AttentionContext, AttentionObserver, BatchLayout, BuildContext, Cache, Dims, EncoderOutput, Problem
from kit_stack.options import LayeredOptions
from kit_stack.transformer import TransformerStack


class UniversalOptions(LayeredOptions):
    """Universal Transformer: the same layers in every step."""

    use: Literal["universal"] = "universal"
    depth: PositiveInt = Field(default=1, le=10_000)
    """Number of shared layers."""
    steps: PositiveInt = Field(default=6, le=10_000)
    """Passes through them."""
    step_vectors: Literal["waves", "learned", "none"] = "waves"
    """Step embeddings: sinusoids (the paper), a learned vector per step, or none."""
    positions: Literal["every_step", "once"] = "every_step"
    """Whether position embeddings are added before every step (the paper) or once."""

    @property
    def rounds(self) -> int:
        """The steps: passes through all layers."""
        return self.steps


class RoundObserver(AttentionObserver):
    """Reports each use of a shared layer to another observer as a layer of its own."""

    def __init__(self, observer: AttentionObserver) -> None:
        self.observer = observer
        self.shift = 0

    def weights(self, build_context: BuildContext, weights_BHQK: Tensor, context: AttentionContext) -> None:
        """Forwards with the layer number of this use."""
        self.observer.weights(self._numbered(build_context), weights_BHQK, context)

    def values(self, build_context: BuildContext, v_BGKF: Tensor, context: AttentionContext) -> None:
        """Forwards with the layer number of this use."""
        self.observer.values(self._numbered(build_context), v_BGKF, context)

    def without_weights(self, build_context: BuildContext, reason: str) -> None:
        """Forwards with the layer number of this use."""
        self.observer.without_weights(self._numbered(build_context), reason)

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        """Forwards with the layer number of this use."""
        return self.observer.heads(self._numbered(build_context), out_BHQF)

    def _numbered(self, build_context: BuildContext) -> BuildContext:
        return replace(build_context, layer=build_context.layer + self.shift)


class UniversalStack(TransformerStack):
    """A Transformer stack that is applied several times."""

    options_type = UniversalOptions
    options: UniversalOptions
    default = False
    step_table: Tensor | None

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        if options.step_vectors == "learned":
            self.step_table = nn.Parameter(torch.empty(options.steps, dims.width))
            nn.init.normal_(self.step_table, std=dims.width**-0.5)
        else:
            waves = step_sinusoids(options.steps, dims.width) if options.step_vectors == "waves" else None
            self.register_buffer("step_table", waves, persistent=False)

    @classmethod
    def depth_of(cls, options: Any) -> int:
        """Layers times steps."""
        return int(options.depth * options.steps)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The checks of any stack; step and position embeddings need plain token vectors."""
        yield from super().check(options, dims, build_context)
        plan = cls.layer_plans(options, build_context)[0]
        if (
            plan.residual is not None
            and plan.carries_streams
            and (options.step_vectors != "none" or options.positions == "every_step")
        ):
            yield plan.at("residual").problem(
                f"a universal stack marks vectors before every step, and the residual {plan.residual.name()} "
                "turns them into several streams",
                hint="choose another residual, or write step_vectors: none and positions: once",
            )

    def forward(
        self,
        x: Tensor,
        layout: BatchLayout,
        memory: EncoderOutput | None = None,
        state: Cache | None = None,
        observer: AttentionObserver | None = None,
    ) -> Tensor:
        """x: [..., width] in the given layout; the same shape."""
        return super().forward(x, layout, memory, state, None if observer is None else RoundObserver(observer))

    def begin_round(self, number: int, x: Tensor, layout: BatchLayout, observer: AttentionObserver | None) -> Tensor:
        """Adds position embeddings again, and the step embedding."""
        if isinstance(observer, RoundObserver):
            observer.shift = (number + 1 - self.options.steps) * len(self.layers)
        if number and self.options.positions == "every_step":
            x = self.embed(x, layout.packed_positions)
        return x if self.step_table is None else x + self.step_table[number].to(x.dtype)


def step_sinusoids(steps: int, width: int) -> Tensor:
    """Sinusoidal step embeddings, sines and cosines alternating: [steps, width]."""
    pairs = torch.arange(0, width + width % 2, 2, dtype=torch.float64)
    angles = torch.arange(steps, dtype=torch.float64)[:, None] * 10_000.0 ** (-pairs / width)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[:, :width].float()
