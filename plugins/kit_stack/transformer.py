"""Stack of Transformer layers: Attention Is All You Need (Vaswani et al. 2017), section 3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from torch import Tensor, nn

from kit import (
    AttentionContext,
    AttentionObserver,
    BatchLayout,
    BuildContext,
    Cache,
    CacheList,
    Dims,
    EncoderOutput,
    LayerPlan,
    Mask,
    Options,
    Position,
    Problem,
    Stack,
    all_of,
)
from kit_stack.layer import TransformerLayer, stochastic_depth
from kit_stack.options import LayeredOptions, TransformerOptions


class TransformerCache(CacheList):
    """Caches of all layers and the layout of the tokens so far."""

    read: BatchLayout | None = None

    def reorder(self, rows: Tensor) -> None:
        """Reorders the cache of every layer."""
        super().reorder(rows)
        self.read = None if self.read is None else self.read.reorder(rows)

    def evict_except(self, tokens_BK: Tensor) -> None:
        """Evicts tokens from the cache of every layer."""
        super().evict_except(tokens_BK)
        self.read = None if self.read is None else self.read.evict_except(tokens_BK)


class TransformerStack(Stack):
    """Layers that may differ; those with equal masks and position share one attention context per pass."""

    options_type: ClassVar[type[Options]] = TransformerOptions
    options: LayeredOptions
    default = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        plans = self.layer_plans(options, build_context)
        self.positions = nn.ModuleDict()
        self.masks: dict[str, Mask | None] = {}
        self.context_keys = [(self._mask_key(plan, dims), self._position_key(plan, dims)) for plan in plans]
        self.layers = nn.ModuleList(TransformerLayer(plan, dims) for plan in plans)
        residual = self._layer(-1).residual
        final = residual.final_norm if options.final_norm is None else options.final_norm
        self.final_norm = residual.new_norm() if final else None

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The pattern must fill the depth; the parts of every layer must suit each other."""
        period = sum(step.repeat for step in options.layers or ())
        if period and options.depth % period:
            yield build_context.problem(
                f"the pattern has {period} layers, and the depth {options.depth} is no multiple of that",
                "layers",
                hint=f"write depth: {-(-options.depth // period) * period}, or change what repeats",
            )
        yield from super().check(options, dims, build_context)

    @classmethod
    def layer_plans(cls, options: Any, build_context: BuildContext) -> list[LayerPlan]:
        """One for each layer of the pattern, repeated until the depth is reached."""
        plans: list[LayerPlan] = options.layer_plans(build_context)
        return plans

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """Adds the position embedding of the first layer: [..., width]."""
        key = self.context_keys[0][1]
        return self._position(key).embed(x, at) if key else x

    def forward(
        self,
        x: Tensor,
        layout: BatchLayout,
        memory: EncoderOutput | None = None,
        state: Cache | None = None,
        observer: AttentionObserver | None = None,
    ) -> Tensor:
        """x: [..., width] in the given layout; the same shape."""
        layers, total = len(self.layers), len(self.layers) * self.options.rounds
        keys = layout
        if isinstance(state, TransformerCache):
            for mask in self.masks.values() if state.read is not None else ():
                if mask is not None:
                    mask.check_step(layout)
            keys = state.read = layout if state.read is None else state.read.join(layout)
        contexts: dict[tuple[str, str], AttentionContext] = {}
        across = None if memory is None else AttentionContext(layout, memory.layout, observer=observer)
        x = self._layer(0).residual.begin_stream(x)
        for index in range(total):
            number = index % layers
            if number == 0:
                x = self.begin_round(index // layers, x, layout, observer)
            key = self.context_keys[number]
            if key not in contexts:
                position = self._position(key[1]) if key[1] else None
                contexts[key] = AttentionContext(layout, keys, self.masks[key[0]], position, observer)
            cache = state[index] if isinstance(state, TransformerCache) else None
            after = self.layers[number](x, contexts[key], None if memory is None else memory.x, across, cache)
            p_skip = self.options.drop_layers * (index + 1) / total
            x = stochastic_depth(x, after, layout, p_skip) if self.training and p_skip else after
        x = self._layer(-1).residual.end_stream(x)
        return x if self.final_norm is None else self.final_norm(x)

    def start(self) -> Cache:
        """Empty caches of all layers."""
        total = range(len(self.layers) * self.options.rounds)
        return TransformerCache([self._layer(index % len(self.layers)).start() for index in total])

    def supports_shared_beams(self) -> bool:
        """True if every layer caches only keys and values, and no position depends on content."""
        mixes = any(self._position(key).locations & {"content_bias"} for key in self.positions)
        return not mixes and all(self._layer(number).supports_shared_beams() for number in range(len(self.layers)))

    def begin_round(self, number: int, x: Tensor, layout: BatchLayout, observer: AttentionObserver | None) -> Tensor:
        """Changes the stream before a pass through all layers, for stacks with several passes."""
        return x

    def _layer(self, number: int) -> TransformerLayer:
        layer = self.layers[number]
        assert isinstance(layer, TransformerLayer)
        return layer

    def _mask_key(self, plan: LayerPlan, dims: Dims) -> str:
        key = repr(plan.masks)
        if key not in self.masks:
            built = [plan.at("masks", number).build(mask, dims) for number, mask in enumerate(plan.masks)]
            self.masks[key] = all_of(built)
        return key

    def _position_key(self, plan: LayerPlan, dims: Dims) -> str:
        """Layers with equal position options and heads share one position part, named after its place in the recipe."""
        if plan.part("position") is None:
            return ""
        key = "_".join(map(str, plan.paths["position"]))
        if key in self.positions and self._position(key).dims != plan.dims("position", dims):
            heads, head_dim = plan.heads(dims)
            key = f"{key}_{heads}_by_{head_dim}"
        if key not in self.positions:
            self.positions[key] = plan.build("position", dims)
        return key

    def _position(self, key: str) -> Position:
        part = self.positions[key]
        assert isinstance(part, Position)
        return part
