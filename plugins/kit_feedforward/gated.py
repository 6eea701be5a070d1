"""Gated feed-forward layers (GLU family): GLU Variants Improve Transformer (Shazeer 2020).

Shapes: D model width, N hidden width.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

from pydantic import PositiveInt
from torch import Tensor, nn

from kit import BuildContext, Dims, Dropout, Feedforward, MLPOptions, TensorParallelShard, contiguous_shard


class GatedOptions(MLPOptions):
    """Gated linear units: down(activation(gate(x)) · up(x))."""

    sizing: Literal["equal", "ffn_multiplier"] = "equal"
    """`equal`: 2/3 · ffn_multiplier · width hidden units, for the parameters of an MLP (Shazeer); else all of it."""
    multiple: PositiveInt = 1
    """The hidden width is rounded up to a multiple of this; 256 in Llama."""

    def ffn_dim(self, width: int) -> int:
        """The hidden width: `hidden`, or by `sizing`."""
        if self.hidden is not None:
            return self.hidden
        fraction = 2 / 3 if self.sizing == "equal" else 1.0
        hidden = max(1, round(width * self.ffn_multiplier * fraction))
        return -(-hidden // self.multiple) * self.multiple


class GatedFeedforward(Feedforward):
    """down(activate(gate(x)) · up(x)), with gate and up in one matrix; a variant overrides `activate`."""

    options: GatedOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.hidden = options.ffn_dim(dims.width)
        self.gate_up = nn.Linear(dims.width, 2 * self.hidden, options.bias)
        self.down = nn.Linear(self.hidden, dims.width, options.bias)
        self.dropout = Dropout(options.dropout)
        for weight in (*self.gate_up.weight.chunk(2), self.down.weight):
            nn.init.xavier_uniform_(weight)
        if options.bias:
            nn.init.zeros_(self.gate_up.bias)
            nn.init.zeros_(self.down.bias)

    @abstractmethod
    def activate(self, gate: Tensor) -> Tensor:
        """The activation of the gate, elementwise: [..., N]."""

    def transform(self, x: Tensor) -> Tensor:
        """x: [..., D]; the same shape."""
        gate_N, up_N = self.gate_up(x).chunk(2, -1)
        out: Tensor = self.down(self.dropout(self.activate(gate_N) * up_N))
        return out

    def tensor_parallel_shard(self, rank: int, world_size: int) -> TensorParallelShard | None:
        """The shard with a rank's hidden units and their gates; None if they cannot be split evenly."""
        if self.hidden % world_size:
            return None
        own = contiguous_shard(rank, world_size, self.hidden)
        both = [*own, *(self.hidden + number for number in own)]
        options = self.options.model_copy(update={"hidden": len(own)})
        shards = {"gate_up.weight": (0, both), "gate_up.bias": (0, both), "down.weight": (1, own)}
        return TensorParallelShard(shards, "down", lambda: type(self)(options, self.dims, self.build_context))

    def value_output_parameters(self) -> list[Tensor]:
        """The up and down projections; the gate is left out."""
        return [self.gate_up.weight[self.hidden :], self.down.weight]
