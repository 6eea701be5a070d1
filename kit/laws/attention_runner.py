"""Runners of an attention in one setting: on whole sequences, or incrementally with a cache.

Shapes: B rows, Q queries, D width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kit.contracts.attention import Attention
from kit.laws.batches import group_feature, layout_of, padding_mask_of, slices, vectors
from kit.laws.setting import MEMORY, WIDTH, Setting
from kit.laws.subject import Subject
from kit.sequence.attention_context import AttentionContext
from kit.sequence.batch_layout import BatchLayout
from kit.sequence.cache import Cache
from kit.sequence.observer import AttentionObserver

SHORT = 7
LONG = 200
"""A sequence length above the limits of kernels for short sequences."""


@dataclass
class AttentionInputs:
    """The inputs of an attention: hidden states with their padding mask, and an encoder output for cross-attention."""

    x: Tensor
    padding_mask: Tensor | None = None
    memory: Tensor | None = None
    memory_padding_mask: Tensor | None = None

    def rows(self, index: Tensor) -> AttentionInputs:
        """Selects rows."""
        chosen = [
            None if each is None else each[index] for each in (self.padding_mask, self.memory, self.memory_padding_mask)
        ]
        return AttentionInputs(self.x[index], *chosen)

    def real(self, out: Tensor) -> Tensor:
        """Returns the output of real queries, [N, D]."""
        return out.flatten(0, 1) if self.padding_mask is None else out[self.padding_mask]


class AttentionRunner:
    """An attention that is built in a setting, and runs on whole sequences or in steps."""

    def __init__(self, subject: Subject, setting: Setting, **build: Any) -> None:
        component = subject.component
        assert issubclass(component, Attention)
        self.setting = setting
        self.part: Attention = subject.build(setting, **build)
        self.position = setting.position(self.part.dims, component)

    def inputs(
        self, lengths: Sequence[int], side: Any = "right", seed: int = 0, memory: Sequence[int] | None = None
    ) -> AttentionInputs:
        """Returns random inputs of these lengths, with encoder outputs for cross-attention."""
        padding_mask = padding_mask_of(lengths, side)
        x = vectors(len(lengths), max([1, *lengths]), WIDTH, seed=seed)
        if not self.setting.memory:
            return AttentionInputs(x, padding_mask)
        sizes = memory if memory is not None else [5 + 2 * (row % 2) for row in range(len(lengths))]
        encoder_output = vectors(len(lengths), max(sizes), MEMORY, seed=seed + 100)
        return AttentionInputs(x, padding_mask, encoder_output, padding_mask_of(sizes, side))

    def context(
        self, inputs: AttentionInputs, observer: AttentionObserver | None = None, packed: bool = False
    ) -> AttentionContext:
        """Returns the attention context of inputs."""
        queries = _layout(inputs.x, inputs.padding_mask, packed, self.features(inputs.x, inputs.padding_mask))
        keys = queries if inputs.memory is None else _layout(inputs.memory, inputs.memory_padding_mask, packed)
        return AttentionContext(queries, keys, self.setting.mask, self.position, observer)

    def features(self, x: Tensor, padding_mask: Tensor | None) -> dict[str, Tensor]:
        """Returns the token features that the mask reads."""
        mask = self.setting.mask
        return group_feature(padding_mask, x.shape[0], x.shape[1]) if mask is not None and mask.needs else {}

    def __call__(
        self, inputs: AttentionInputs, observer: AttentionObserver | None = None, packed: bool = False
    ) -> Tensor:
        """Attends within whole sequences: [B, Q, D], or [N, D] packed."""
        context = self.context(inputs, observer, packed)
        memory = None if inputs.memory is None else context.keys.unpad(inputs.memory)
        out: Tensor = self.part(context.queries.unpad(inputs.x), memory, context)
        return out

    def in_steps(
        self, inputs: AttentionInputs, sizes: Sequence[int], observer: AttentionObserver | None = None
    ) -> Tensor:
        """Attends to sequences in pieces with a cache: [B, Q, D]."""
        run = IncrementalRunner(self, inputs)
        return torch.cat(
            [
                run.step(inputs.x[:, piece], _sliced(inputs.padding_mask, piece), observer)
                for piece in slices(inputs.x.shape[1], sizes)
            ],
            1,
        )


class IncrementalRunner:
    """A run of incremental decoding with a cache."""

    def __init__(self, runner: AttentionRunner, inputs: AttentionInputs) -> None:
        self.runner = runner
        self.cache: Cache = runner.part.start()
        self.past: BatchLayout | None = None
        self.memory = inputs.memory
        self.memory_layout = (
            None if inputs.memory is None else _layout(inputs.memory, inputs.memory_padding_mask, False)
        )

    def step(self, x: Tensor, padding_mask: Tensor | None = None, observer: AttentionObserver | None = None) -> Tensor:
        """Attends from the next tokens to all tokens so far: [B, Q, D]."""
        queries = layout_of(x.shape[0], x.shape[1], padding_mask, self.past, self._features(x, padding_mask))
        self.past = queries if self.past is None else self.past.join(queries)
        keys = self.past if self.memory_layout is None else self.memory_layout
        context = AttentionContext(queries, keys, self.runner.setting.mask, self.runner.position, observer)
        out: Tensor = self.runner.part(x, self.memory, context, self.cache)
        return out

    def _features(self, x: Tensor, padding_mask: Tensor | None) -> dict[str, Tensor]:
        """Returns the features of new tokens, whose index continues after earlier tokens."""
        if self.past is None:
            return self.runner.features(x, padding_mask)
        ones = [torch.ones(x.shape[0], each, dtype=torch.bool) for each in (self.past.length, x.shape[1])]
        before = ones[0] if self.past.padding_mask is None else self.past.padding_mask
        real = torch.cat([before, ones[1] if padding_mask is None else padding_mask], 1)
        return {name: feature[:, self.past.length :] for name, feature in self.runner.features(real, real).items()}

    def reorder(self, rows: Tensor) -> None:
        """Selects rows of the cache, of the layout of earlier tokens and of the encoder output."""
        self.cache.reorder(rows)
        self.past = None if self.past is None else self.past.reorder(rows)
        if self.memory is not None and self.memory_layout is not None:
            self.memory, self.memory_layout = self.memory[rows], self.memory_layout.reorder(rows)


def _layout(
    x: Tensor, padding_mask: Tensor | None, packed: bool, features: Mapping[str, Tensor] | None = None
) -> BatchLayout:
    layout = layout_of(x.shape[0], x.shape[1], padding_mask, features=features)
    return layout.packed() if packed else layout


def _sliced(padding_mask: Tensor | None, piece: slice) -> Tensor | None:
    return None if padding_mask is None else padding_mask[:, piece]
