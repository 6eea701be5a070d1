"""Multi-step greedy decoding: the integer inputs of several compiled steps are computed ahead, and C++ runs the loop.

Shapes: S steps at most, N integers that a step takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from kit.generation.compiled_graph import CompiledGraph
from kit.generation.flat_cache import FlattenedCache
from kit.kernels.decoding import GREEDY_LOOP, StepIO, multi_step_decode
from kit.model.decoding_session import GreedySteps

STEP_OUTPUTS = 2
"""Hidden states and logits, which a graph returns before the leaves of the cache that have changed."""


class MultiStepDecoder:
    """Takes several greedy steps of one compiled graph at a time, as long as its guards hold."""

    def __init__(self, graph: CompiledGraph, changed: Sequence[int], step_io: StepIO) -> None:
        self.graph = graph
        self.changed = changed
        """For each output after hidden states and logits, the index of its leaf in the cache."""
        self.step_io = step_io
        integers = set(graph.integer_outputs)
        outputs = range(STEP_OUTPUTS, STEP_OUTPUTS + len(changed))
        self.tensors = [index for index in outputs if index not in integers]
        """Indices of the outputs that are tensors, after hidden states and logits."""

    @classmethod
    def of(
        cls, graph: CompiledGraph, changed: Sequence[int], leaves: Sequence[Any], offset: int
    ) -> MultiStepDecoder | None:
        """Returns a decoder for a graph that takes these leaves; None if its steps cannot follow each other unchecked.

        They can if the tensors of the cache that a step replaces keep their dtype and sizes.
        changed: indices of leaves of the cache; offset: how many leaves precede those of the cache.
        """
        if graph.entry is None or not GREEDY_LOOP.load():
            return None
        ids = 0  # the first leaf of tokens
        inputs = {leaf: index for index, leaf in enumerate(graph.used)}
        if ids not in inputs or tuple(leaves[ids].shape) != (1, 1):
            return None
        types, integers = iter(graph.output_types), set(graph.integer_outputs)
        hidden, logits = (() if index in integers else next(types) for index in range(STEP_OUTPUTS))
        if not hidden or logits[0] != torch.float32:
            return None
        feedback = [-1] * STEP_OUTPUTS
        for index, leaf in enumerate(changed, STEP_OUTPUTS):
            if index in integers:
                continue
            if next(types) != graph.input_types.get(offset + leaf):
                return None
            feedback.append(inputs.get(offset + leaf, -1))
        integer_inputs = [index for index, leaf in enumerate(graph.used) if not isinstance(leaves[leaf], Tensor)]
        return cls(graph, changed, StepIO(graph.entry, inputs[ids], integer_inputs, feedback, logits=1))

    def run(
        self, cache: FlattenedCache, inputs: Iterable[list[Any] | None], suppressed_ids: Tensor, end: int
    ) -> GreedySteps | None:
        """Takes steps, at most one for each of `inputs`, which are flattened tokens and their layout."""
        graph = self.graph
        first: list[Any] = []
        current, after, integers = list(cache.leaves), [], []
        for given in inputs:
            if given is None:
                break
            leaves = [*given, *cache.encoder_leaves, *current]
            first = first or leaves
            # Only integers are known in advance.
            same_tensors = all(
                one is other for one, other in zip(given, first, strict=False) if isinstance(one, Tensor)
            )
            if not same_tensors or not graph.fits(leaves):
                break
            integers.append([leaves[graph.used[index]] for index in self.step_io.integers])
            current = list(current)
            for index, value in zip(graph.integer_outputs, graph.integers(leaves), strict=True):
                current[self.changed[index - STEP_OUTPUTS]] = value
            after.append(current)
        if not after:
            return None
        tensors = [first[index] for index in graph.used]
        for index in self.step_io.integers:
            tensors[index] = suppressed_ids  # any tensor: each step takes integers of its own
        integers_SN = torch.tensor(integers, dtype=torch.long).view(len(integers), -1)
        step_inputs = [*tensors, *graph.weights]
        log_T, token_T, outputs = multi_step_decode(
            self.step_io, step_inputs, int(first[0]), integers_SN, suppressed_ids, end
        )
        cache.leaves = after[len(token_T) - 1]
        for index, tensor in zip(self.tensors, outputs[STEP_OUTPUTS:], strict=True):
            cache.leaves[self.changed[index - STEP_OUTPUTS]] = tensor
        return GreedySteps(log_T, token_T, outputs[0])
