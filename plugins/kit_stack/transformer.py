"""A stack of Transformer layers: attention, attention to a memory, feed-forward (Vaswani et al. 2017, section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from torch import Tensor, nn

from kit import (
    Dims,
    Layout,
    Mask,
    Memory,
    Options,
    Position,
    Problem,
    Scope,
    Site,
    Stack,
    State,
    States,
    Watcher,
    all_of,
)
from kit_stack.checks import check_stack
from kit_stack.layer import TransformerLayer
from kit_stack.options import LayeredOptions, TransformerOptions
from kit_stack.plan import LayerPlan
from kit_stack.skipping import skip_texts


class TransformerState(States):
    """The states of all layers, and where the tokens stand that were read so far."""

    read: Layout | None = None

    def select(self, rows: Tensor) -> None:
        """Choose rows in every layer."""
        super().select(rows)
        self.read = None if self.read is None else self.read.select(rows)

    def keep_tokens(self, tokens_BK: Tensor) -> None:
        """In every layer."""
        super().keep_tokens(tokens_BK)
        self.read = None if self.read is None else self.read.keep_tokens(tokens_BK)


class TransformerStack(Stack):
    """Layers that may differ; those with the same masks and position share one scope a pass."""

    options_type: ClassVar[type[Options]] = TransformerOptions
    options: LayeredOptions
    default = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        plans = options.plan(site)
        self.positions = nn.ModuleDict()
        self.masks: dict[str, Mask | None] = {}
        self.places = [(self._mask_key(plan, dims), self._position_key(plan, dims)) for plan in plans]
        self.layers = nn.ModuleList(TransformerLayer(plan, dims) for plan in plans)
        residual = self._layer(-1).residual
        final = residual.final_norm if options.final_norm is None else options.final_norm
        self.final_norm = residual.new_norm() if final else None

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Every layer's parts, and whether they suit each other."""
        yield from check_stack(options, dims, site)

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """By the first layer's position part."""
        key = self.places[0][1]
        return self._position(key).embed(x, at) if key else x

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        memory: Memory | None = None,
        state: State | None = None,
        watcher: Watcher | None = None,
    ) -> Tensor:
        """x: [..., width] as `layout` carries it."""
        layers, turns = len(self.layers), len(self.layers) * self.options.rounds
        keys = layout
        if isinstance(state, TransformerState):
            for mask in self.masks.values() if state.read is not None else ():
                if mask is not None:
                    mask.check_step(layout)
            keys = state.read = layout if state.read is None else state.read.join(layout)
        scopes: dict[tuple[str, str], Scope] = {}
        across = None if memory is None else Scope(layout, memory.layout, watcher=watcher)
        x = self._layer(0).residual.enter(x)
        for turn in range(turns):
            number = turn % layers
            if number == 0:
                x = self.begin_round(turn // layers, x, layout, watcher)
            place = self.places[number]
            if place not in scopes:
                position = self._position(place[1]) if place[1] else None
                scopes[place] = Scope(layout, keys, self.masks[place[0]], position, watcher)
            known = state[turn] if isinstance(state, TransformerState) else None
            after = self.layers[number](x, scopes[place], None if memory is None else memory.x, across, known)
            chance = self.options.drop_layers * (turn + 1) / turns
            x = skip_texts(x, after, layout, chance) if self.training and chance else after
        x = self._layer(-1).residual.leave(x)
        return x if self.final_norm is None else self.final_norm(x)

    def start(self) -> State:
        """Empty states for all layers."""
        turns = range(len(self.layers) * self.options.rounds)
        return TransformerState([self._layer(turn % len(self.layers)).start() for turn in turns])

    def branches(self) -> bool:
        """Where every layer remembers keys, values and memory only, and looks at keys as the scope shows them."""
        mixes = any(self._position(key).places() & {"interact"} for key in self.positions)
        return not mixes and all(self._layer(number).branches() for number in range(len(self.layers)))

    def begin_round(self, number: int, x: Tensor, layout: Layout, watcher: Watcher | None) -> Tensor:
        """What happens to the stream before it goes through all layers, for stacks that do so several times."""
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
        """Layers with the same position options and heads share one position part, named after where it came from."""
        if plan.part("position") is None:
            return ""
        key = "_".join(map(str, plan.paths["position"]))
        if key in self.positions and self._position(key).dims != plan.dims("position", dims):
            heads, head_width = plan.heads(dims)
            key = f"{key}_{heads}_by_{head_width}"
        if key not in self.positions:
            self.positions[key] = plan.build("position", dims)
        return key

    def _position(self, key: str) -> Position:
        part = self.positions[key]
        assert isinstance(part, Position)
        return part
