"""Contract of attention: self-attention of a sequence, or cross-attention to an encoder output."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from kit.contracts.mask import Shape
from kit.contracts.part import Part
from kit.contracts.position import Location
from kit.plugin.component import Dims
from kit.sequence.attention_context import AttentionContext
from kit.sequence.cache import Cache

Cost = Literal["linear", "quadratic"]


@dataclass(frozen=True)
class Capabilities:
    """What an attention supports, as data: recipes are checked against it and documentation is generated from it."""

    masks: frozenset[Shape] = frozenset({"causal", "pairs"})
    """Supported masks, besides padding, which is always supported. `pairs` stands for any mask."""
    positions: frozenset[Location] = frozenset({"rotate", "bias", "content_bias"})
    """Supported locations of positional encodings; `embed` happens before attention and concerns none."""
    reads_self: bool = True
    """Whether it supports self-attention."""
    reads_memory: bool = True
    """Whether it supports cross-attention."""
    incremental: bool = True
    """Whether it can decode token by token with a cache."""
    supports_shared_beams: bool = False
    """True if beams may share one KV cache row: attention depends only on the context's mask, indices and positions,
    never on a key's index in the cache. Reordering beams then copies no keys or values."""
    weights: bool = True
    """Whether it has attention weights to show to an observer."""
    weights_sum_to_one: bool = True
    """Whether the weights of a query sum to one over unmasked keys."""
    compiles: bool = True
    """Whether torch.compile gives the same results."""
    cost: Cost = "quadratic"
    """How time and memory grow with sequence length."""


class Attention(Part):
    """Attention of queries to keys and values; most variants extend `MultiHeadAttention`."""

    kind = "attention"

    capabilities: ClassVar[Capabilities] = Capabilities()

    @classmethod
    def head_shape(cls, options: Any, dims: Dims) -> tuple[int, int]:
        """Returns the number of heads and the head_dim, for which a position part is built."""
        return 1, dims.width

    @abstractmethod
    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        """x: hidden states in the layout `context.queries`; memory: encoder output in `context.keys`, or None.


        state: the cache from `start` while decoding, which is updated in place. Returns the shape of x.
        """

    def select_heads(self, heads: Sequence[int]) -> dict[str, Tensor] | None:
        """Slices the parameters to these heads, as a part built with these `kept_heads` has them; None if it cannot."""
        return None

    def value_output_parameters(self) -> list[Tensor]:
        """The OV circuit: weight matrices from values to the output, which some residuals scale."""
        return [parameter for parameter in self.parameters() if parameter.dim() > 1]

    @abstractmethod
    def start(self) -> Cache:
        """Returns an empty cache."""
