"""Compiles decoding steps, which for few tokens are bound by the overhead of each operation, and single sources.

Each kind of step (dtypes, ranks and strides of its tensors, the specification of its cache) has a compiled graph of its
own; steps that torch cannot trace run as they are.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from kit.contracts.stack import EncoderOutput
from kit.errors import KitError
from kit.generation.compiled_graph import CompiledGraph
from kit.generation.flat_cache import FlattenedCache, NotFlattenable, TreeSpec, compiled_flatten, flatten, unflatten
from kit.generation.multi_step import MultiStepDecoder
from kit.kernels.decoding import has_cpp_compiler
from kit.kernels.devices import is_cpu
from kit.model.decoding_session import GreedySteps
from kit.model.families import EncoderDecoder, Model, Tower
from kit.sequence.batch_layout import BatchLayout, TokenBatch
from kit.sequence.cache import Cache
from kit.sequence.observer import AttentionObserver

MAX_STEP_TOKENS = 16
"""A single sequence is compiled up to so many tokens a step: the rows of a beam, or guesses that are checked."""
MIN_BATCH_ROWS = 16
"""Batches are compiled from so many rows on, where wanted: in between there are more kinds of step than pay."""
RESERVED_STEPS = 32
"""Steps that a single sequence reserves cache capacity for at once: it takes little memory, and growing copies it."""
MAX_STEP_KINDS = 16
"""More kinds of step than these run uncompiled."""
MAX_CACHE_KINDS = 1024
"""With more kinds of cache than these compiling is given up, because the table of them would only grow."""
MAX_SOURCE_LENGTH = 256
"""Sources up to so many tokens are compiled; in longer ones the overhead of operations is small."""
MAX_SOURCE_KINDS = 4
"""More kinds of source than these are encoded uncompiled: of one token, of several, with features."""


class NotCompiledWarning(UserWarning):
    """A model whose parts torch cannot compile, and which runs as it is."""


def compile_steps(model: Model, batches: bool = False) -> None:
    """Compiles the decoding steps of a model in place, for inference only; results stay the same to rounding.

    batches: steps of large batches too.
    """
    tower = getattr(model, "decoder", None)
    if not isinstance(tower, Tower):
        raise KitError("only a model that writes has steps to compile, and this one has no decoder")
    if not has_cpp_compiler():
        wanted = os.environ.get("CXX") or "g++ or clang++"
        raise KitError(f"compiling needs a C++ compiler, and there is no {wanted} here; install one, or do without")
    start = tower.stack.start
    tower.stack.__dict__["start"] = lambda: FlattenedCache(start())
    cpu = is_cpu(next(tower.parameters()))
    decoder = CompiledDecoder(model.decode_step, batches, cpu)
    model.__dict__.update(decode_step=decoder, decode_greedy=decoder.decode_greedy)
    if cpu and isinstance(model, EncoderDecoder):
        model.__dict__["encode"] = CompiledEncoder(model.encode)


class CompiledStep:
    """A compiled graph of the leaves of tokens with their layout, an encoder output and a cache, in this order."""

    def __init__(
        self, eager: Any, decoder: Tower, specs: tuple[TreeSpec, TreeSpec, TreeSpec], leaves: Sequence[Any], cpu: bool
    ) -> None:
        input_spec, _, cache_spec = specs
        self.after: TreeSpec = ()
        self.changed: list[int] = []
        self.size = 0
        self.keeps_types = True
        """Whether tensors that replace others have their dtypes and ranks."""

        def step(*inputs: Any) -> list[Any]:
            left = iter(inputs)
            (tokens, layout), encoder_output, cache = (unflatten(spec, left) for spec in specs)
            before = flatten(cache)[1]
            outputs = eager(decoder, tokens, layout, encoder_output, cache, None)
            self.after, after = flatten(cache)
            # If the number of leaves has changed, all of them count as new.
            kept = before if len(before) == len(after) else [None] * len(after)
            self.changed = [index for index, leaf in enumerate(after) if leaf is not kept[index]]
            self.size = len(after)
            self.keeps_types = all(
                _dtype_and_rank(after[index]) == _dtype_and_rank(kept[index]) for index in self.changed
            )
            return [*outputs, *(after[index] for index in self.changed)]

        self.graph = CompiledGraph(step, leaves, equal_integers(leaves), cpu)
        self.keeps_spec = self.after == cache_spec and self.keeps_types
        # Where tensors are changed in place, outputs that replace other tensors of the cache may alias them.
        self._alias_free = not self.graph.mutated or len(self.changed) == len(self.graph.integer_outputs)
        """Whether its outputs are known not to alias tensors that it changes in place."""
        unchecked = self.keeps_spec and self._alias_free
        offset = len(leaves) - self.size
        self.multi_step = MultiStepDecoder.of(self.graph, self.changed, leaves, offset) if unchecked else None
        self.flatten_inputs = compiled_flatten(input_spec, leaves)
        """Flattens tokens and their layout; None if they are of another kind."""

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether it may be called: guards hold, and no tensor that is changed in place shares storage with another."""
        if not self.graph.fits(leaves):
            return False
        users = Counter(leaf.untyped_storage().data_ptr() for leaf in leaves if isinstance(leaf, Tensor))
        return all(users[leaves[index].untyped_storage().data_ptr()] == 1 for index in self.graph.mutated)

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Whether it may be called right after itself; whether its outputs alias is checked only once."""
        if self._alias_free:
            return self.graph.fits(leaves)
        self._alias_free = self.holds(leaves)
        return self._alias_free

    def __call__(self, leaves: Sequence[Any], cache: FlattenedCache) -> tuple[Tensor, Tensor]:
        """Returns hidden states of the last layer and logits, and updates the cache."""
        x, logits, *changed = self.graph(leaves)
        if not self.keeps_spec:
            cache.retype(self.after, self.size)
        for index, leaf in zip(self.changed, changed, strict=True):
            cache.leaves[index] = leaf
        return x, logits


def equal_integers(leaves: Sequence[Any]) -> list[int]:
    """Returns for each leaf the index of the first equal integer: every layer holds the number of tokens read."""
    first: dict[int, int] = {}
    return [index if isinstance(leaf, Tensor) else first.setdefault(leaf, index) for index, leaf in enumerate(leaves)]


def _dtype_and_rank(leaf: Any) -> Any:
    return (leaf.dtype, leaf.ndim) if isinstance(leaf, Tensor) else None


class CompiledEncoder:
    """The encoder of a model, compiled for single sources."""

    def __init__(self, eager: Callable[..., EncoderOutput]) -> None:
        self.eager = eager
        self.graphs: dict[Any, _CompiledSource | None] = {}

    def __call__(
        self, source: TokenBatch | Tensor, packed: bool = False, observer: AttentionObserver | None = None
    ) -> EncoderOutput:
        """Encodes sources as `EncoderDecoder.encode` does."""
        tokens = TokenBatch.of(source)
        rows, length = tokens.ids.shape
        eager = observer is not None or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu")
        if not eager and rows == 1 and 0 < length <= MAX_SOURCE_LENGTH:
            try:
                spec, leaves = flatten(tokens)
            except NotFlattenable:  # features of an unknown type
                return self.eager(source, packed, observer)
            key = spec, tuple((leaf.dtype, leaf.ndim) for leaf in leaves), packed, length == 1
            if key not in self.graphs and len(self.graphs) < MAX_SOURCE_KINDS:
                self.graphs[key] = self._compiled(spec, leaves, packed)
            compiled = self.graphs.get(key)
            if compiled is not None and compiled.graph.fits(leaves):
                return compiled(leaves)
        return self.eager(source, packed, observer)

    def _compiled(self, spec: TreeSpec, leaves: Sequence[Tensor], packed: bool) -> _CompiledSource | None:
        try:
            return _CompiledSource(self.eager, spec, leaves, packed)
        except Exception:  # torch raises many kinds; such sources are encoded uncompiled
            return None


class _CompiledSource:
    """A compiled graph for one kind of source."""

    def __init__(
        self, eager: Callable[..., EncoderOutput], spec: TreeSpec, leaves: Sequence[Tensor], packed: bool
    ) -> None:
        self.spec: TreeSpec = ()

        def encode(*inputs: Any) -> list[Any]:
            self.spec, outputs = flatten(eager(unflatten(spec, inputs), packed, None))
            return outputs

        self.graph = CompiledGraph(encode, leaves, list(range(len(leaves))), cpu=True)

    def __call__(self, leaves: Sequence[Tensor]) -> EncoderOutput:
        """Returns the encoder output."""
        encoder_output: EncoderOutput = unflatten(self.spec, self.graph(leaves))
        return encoder_output


class CompiledDecoder:
    """The decoding steps of a model, compiled where they are small or large enough to gain from it."""

    def __init__(self, eager: Callable[..., tuple[Tensor, Tensor]], batches: bool, cpu: bool) -> None:
        self.eager = eager
        self.batches = batches
        self.cpu = cpu
        self.steps: dict[Any, list[CompiledStep]] = {}
        self.signatures: dict[Any, int] = {}
        """Kinds of cache and encoder output, numbered."""
        self.works = True
        self._compiling = threading.Lock()
        """Several threads may decode with one model."""

    def __call__(
        self,
        decoder: Tower,
        tokens: TokenBatch,
        layout: BatchLayout,
        memory: EncoderOutput | None,
        cache: Cache,
        observer: AttentionObserver | None,
    ) -> tuple[Tensor, Tensor]:
        """Reads tokens as `Model.decode_step`; returns hidden states of the last layer and logits."""
        inputs = decoder, tokens, layout, memory
        if observer is None and isinstance(cache, FlattenedCache) and self._should_compile(tokens):
            step, leaves = self._step_or_give_up(cache, *inputs)
            if step is not None:
                return step(leaves, cache)
        return self.eager(*inputs, cache.materialize(), observer)

    def decode_greedy(
        self,
        decoder: Tower,
        tokens: TokenBatch,
        layouts: Iterator[BatchLayout],
        memory: EncoderOutput | None,
        cache: Cache,
        suppressed_ids: Tensor,
        end: int,
    ) -> GreedySteps | None:
        """Takes several greedy steps as `Model.decode_greedy`; None if they must be taken one by one."""
        if not isinstance(cache, FlattenedCache) or not self._should_compile(tokens):
            return None
        first = next(layouts)
        step, _ = self._step_or_give_up(cache, decoder, tokens, first, memory)
        if step is None or step.multi_step is None:
            return None
        inputs = (step.flatten_inputs((tokens, layout)) for layout in chain([first], layouts))
        return step.multi_step.run(cache, inputs, suppressed_ids, end)

    def _step_or_give_up(self, cache: FlattenedCache, *inputs: Any) -> tuple[CompiledStep | None, list[Any]]:
        """Returns what `_step` does; a cache that cannot be flattened ends all compiling."""
        try:
            return self._step(cache, *inputs) if self.works else (None, [])
        except NotFlattenable as error:
            self._give_up(f"{error} is part of its cache")
            return None, []

    def _step(
        self,
        cache: FlattenedCache,
        decoder: Tower,
        tokens: TokenBatch,
        layout: BatchLayout,
        memory: EncoderOutput | None,
    ) -> tuple[CompiledStep | None, list[Any]]:
        """Returns the compiled step for these inputs, made if necessary, and its leaves; None if there is none."""
        if not cache.is_materialized and cache.signature is not None and cache.encoder_output is memory:
            # Nearly every step is of the kind of the step before.
            inputs = cache.last_step.flatten_inputs((tokens, layout))
            if inputs is not None:
                leaves = [*inputs, *cache.encoder_leaves, *cache.leaves]
                if cache.last_step.fits(leaves):
                    return cache.last_step, leaves
        input_spec, inputs = flatten((tokens, layout))
        rows, length = tokens.ids.shape
        for _ in range(2):
            if cache.is_materialized:
                cache.reserve(RESERVED_STEPS * length if rows == 1 else length)
                cache.flatten()
            cache.bind_encoder_output(memory)
            if cache.signature is None:
                kind = cache.spec, cache.encoder_spec, _kinds(cache.encoder_leaves), _kinds(cache.leaves)
                with self._compiling:
                    cache.signature = self.signatures.setdefault(kind, len(self.signatures))
                if len(self.signatures) > MAX_CACHE_KINDS:
                    self._give_up("its cache is of another kind at every step")
                    return None, []
            key = input_spec, _kinds(inputs), cache.signature
            leaves = [*inputs, *cache.encoder_leaves, *cache.leaves]
            if (step := self._known(key, leaves)) is not None:
                cache.last_step = step
                return step, leaves
            cache.materialize()  # its capacity may be used up
        cache.flatten()
        with self._compiling:
            # Another thread may have compiled it meanwhile.
            specs = (input_spec, cache.encoder_spec, cache.spec)
            step = self._known(key, leaves) or self._new(key, decoder, specs, leaves)
        cache.last_step = step
        return step, leaves

    def _known(self, key: Any, leaves: Sequence[Any]) -> CompiledStep | None:
        return next((step for step in self.steps.get(key, ()) if step.holds(leaves)), None)

    def _new(
        self, key: Any, decoder: Tower, specs: tuple[TreeSpec, TreeSpec, TreeSpec], leaves: Sequence[Any]
    ) -> CompiledStep | None:
        if not self.works or sum(map(len, self.steps.values())) >= MAX_STEP_KINDS:
            return None
        try:
            step = CompiledStep(self.eager, decoder, specs, leaves, self.cpu)
            if not step.holds(leaves):
                raise ValueError("a tensor is changed in place that its cache holds in parts too")
        except Exception as error:
            # Torch raises many kinds; nothing was computed yet, and the cache is unchanged.
            self._give_up(str(error).strip().partition("\n")[0] or type(error).__name__)
            return None
        self.steps.setdefault(key, []).append(step)
        return step

    def _should_compile(self, tokens: TokenBatch) -> bool:
        rows, length = tokens.ids.shape
        suitable = length <= MAX_STEP_TOKENS if rows == 1 else self.batches and rows >= MIN_BATCH_ROWS
        return suitable and not torch.is_grad_enabled() and not torch.is_autocast_enabled(tokens.ids.device.type)

    def _give_up(self, reason: str) -> None:
        warnings.warn(f"not compiled, and slower for it: {reason}", NotCompiledWarning, stacklevel=2)
        self.works = False


def _kinds(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Returns what torch specialises on: dtypes, the order of strides, and sizes and integers of 0 and 1."""
    return tuple(_kind(leaf) for leaf in leaves)


def _kind(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return min(leaf, 2)
    strides = leaf.stride()
    order = tuple(sorted(range(len(strides)), key=strides.__getitem__))
    return leaf.dtype, order, tuple(min(size, 2) for size in leaf.shape)
