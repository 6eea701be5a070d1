"""Contract of stacks: hidden states in, hidden states out, with a cache for decoding step by step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from kit.contracts.layer_plan import LayerPlan
from kit.contracts.part import Part
from kit.contracts.stack_checks import layer_problems
from kit.errors import Problem
from kit.plugin.component import BuildContext, Dims
from kit.sequence.batch_layout import BatchLayout
from kit.sequence.cache import Cache
from kit.sequence.observer import AttentionObserver


@dataclass(frozen=True)
class EncoderOutput:
    """The encoder output that a decoder attends to."""

    x: Tensor
    """Hidden states: [N, D] if the layout is packed, else [B, L, D]."""
    layout: BatchLayout

    def padded(self) -> EncoderOutput:
        """The same in the padded layout, whose rows can be reordered."""
        return EncoderOutput(self.layout.pad(self.x), self.layout.padded())

    def reorder(self, rows: Tensor) -> EncoderOutput:
        """Selects rows, in a new order; only for a padded layout."""
        return EncoderOutput(self.x.index_select(0, rows), self.layout.reorder(rows))


class Stack(Part):
    """Layers in sequence, which a stack builds and owns."""

    kind = "stack"

    reads_memory: ClassVar[bool] = True
    """Whether it can be a decoder of an encoder-decoder."""

    @classmethod
    def depth_of(cls, options: Any) -> int:
        """The number of layers that a token passes in a stack with these options."""
        return int(getattr(options, "depth", 1))

    @classmethod
    def layer_plans(cls, options: Any, build_context: BuildContext) -> Sequence[LayerPlan]:
        """The parts of each layer, in order; by default one layer of the options' own slots (`LayerPlan.from_options`).

        `check` compares them with each other, so that no stack needs checks of its own for what its parts can do.
        """
        return [LayerPlan.from_options(options, build_context)]

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Problems of every layer of `layer_plans`; a stack that has more to check calls this too."""
        if dims.memory is not None and not cls.reads_memory:
            yield build_context.problem(
                f"the {build_context.stack} has a memory to attend to, and the stack {cls.name()} reads none",
                hint="choose another stack",
            )
        final_norm = bool(getattr(options, "final_norm", False))
        yield from layer_problems(cls.layer_plans(options, build_context), dims, final_norm)

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        layout: BatchLayout,
        memory: EncoderOutput | None = None,
        state: Cache | None = None,
        observer: AttentionObserver | None = None,
    ) -> Tensor:
        """x: hidden states in this layout; returns the same shape.

        state: the cache from `start`; x then holds only the tokens that are new since the last call.
        """

    @abstractmethod
    def start(self) -> Cache:
        """Returns an empty cache."""

    def supports_shared_beams(self) -> bool:
        """Whether beams of one input may share one cache row, masked by `BatchLayout.ancestor_mask`; false is safe.

        The cache must then support `Cache.share_across_beams` and `Cache.evict_except`.
        """
        return False

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """Adds positions to token embeddings, if the stack's position part does that."""
        return x
