"""Contracts of a layer's parts besides attention: norm, residual connection, feed-forward network and its MLP base."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from kit.contracts.part import Part
from kit.contracts.tensor_parallel import TensorParallelShard, contiguous_shard
from kit.kernels.dropout import Dropout
from kit.plugin.component import BuildContext, Dims, Options
from kit.sequence.attention_context import AttentionContext
from kit.sequence.cache import Cache, NoCache

Sublayer: TypeAlias = Callable[[Tensor], Tensor]


class Norm(Part):
    """Normalization of hidden states over the last axis."""

    kind = "norm"

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]; returns the same shape."""


class Residual(Part):
    """Residual connections of one layer: where norms sit, and how sublayers are added to the residual stream."""

    kind = "residual"

    final_norm: ClassVar[bool] = False
    """Whether a stack of such layers ends in a norm (as pre-norm does)."""
    uses_norm: ClassVar[bool] = True
    """Whether it builds norms, so that a recipe has to name one."""
    starts_as_identity: ClassVar[bool] = False
    """Whether an untrained layer is the identity."""

    def __init__(self, options: Options, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.dropout = Dropout(dims.dropout)

    @abstractmethod
    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: the residual stream; sublayers: in order, named in `build_context.sublayers`. Returns the stream."""

    def begin_stream(self, x: Tensor) -> Tensor:
        """Makes the residual stream from token embeddings, before the first layer."""
        return x

    def end_stream(self, stream: Tensor) -> Tensor:
        """Makes hidden states from the residual stream, after the last layer."""
        return stream

    def initialise(self, sublayers: Mapping[str, Part]) -> None:
        """Changes the initialization of this layer's sublayers, once, after they are built."""

    def new_norm(self) -> Norm:
        """Builds a norm of the kind that the stack chose."""
        norm: Norm = self.build_context.build(self.build_context.inherited["norm"], self.dims)
        return norm


class Feedforward(Part):
    """Feed-forward network of a layer. Override `transform`, or `forward` and `start` if it mixes tokens."""

    kind = "feedforward"

    mixes_tokens: ClassVar[bool] = False
    """Whether the output of a token depends on its neighbours."""
    regroups_tokens: ClassVar[bool] = False
    """Whether the number of rows of a token's matrix products depends on other tokens (mixture of experts). Some
    GEMM libraries round differently by that number, so that the last bit of an output, and no more, may depend on
    them."""

    def transform(self, x: Tensor) -> Tensor:
        """x: [..., width], each token by itself; returns the same shape."""
        raise NotImplementedError(f"{type(self).__name__} must define transform(x), or forward(x, context, state)")

    def forward(self, x: Tensor, context: AttentionContext, state: Cache | None = None) -> Tensor:
        """x: hidden states in the layout `context.queries`; returns the same shape."""
        return self.transform(x)

    def value_output_parameters(self) -> list[Tensor]:
        """Weight matrices from values to the output, which some residuals scale."""
        return [parameter for parameter in self.parameters() if parameter.dim() > 1]

    def start(self) -> Cache:
        """Returns an empty cache."""
        return NoCache()


class MLPOptions(Options):
    """Options of feed-forward networks with one hidden layer."""

    ffn_multiplier: PositiveFloat = 4.0
    """Ratio of the hidden size to the model's width."""
    hidden: PositiveInt | None = None
    """The hidden size itself, in place of the multiplier."""
    bias: bool = True
    """Whether the two projections have a bias."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout probability of hidden activations."""

    def ffn_dim(self, width: int) -> int:
        """Returns the hidden size."""
        return self.hidden or max(1, round(width * self.ffn_multiplier))


class MLP(Feedforward):
    """Up projection, activation, down projection. Override `activate`."""

    options: MLPOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        hidden = options.ffn_dim(dims.width)
        self.up = nn.Linear(dims.width, hidden, options.bias)
        self.down = nn.Linear(hidden, dims.width, options.bias)
        self.dropout = Dropout(options.dropout)
        for linear in (self.up, self.down):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    @abstractmethod
    def activate(self, hidden: Tensor) -> Tensor:
        """The elementwise activation; override `tensor_parallel_shard` too if it is not elementwise."""

    def tensor_parallel_shard(self, rank: int, world_size: int) -> TensorParallelShard | None:
        """The shard with a rank's hidden units; None if they cannot be split evenly."""
        hidden = self.down.in_features
        if hidden % world_size:
            return None
        own = contiguous_shard(rank, world_size, hidden)
        options = self.options.model_copy(update={"hidden": len(own)})
        shards = {"up.weight": (0, own), "up.bias": (0, own), "down.weight": (1, own)}
        return TensorParallelShard(shards, "down", lambda: type(self)(options, self.dims, self.build_context))

    def transform(self, x: Tensor) -> Tensor:
        """Applies up projection, activation, dropout and down projection."""
        out: Tensor = self.down(self.dropout(self.activate(self.up(x))))
        return out
