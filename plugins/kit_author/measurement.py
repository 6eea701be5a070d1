"""Time and memory of a part's forward and backward pass at several lengths, compared with the baseline of its kind.

Shapes: B sequences, T tokens, D width.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kit import Attention, AttentionContext, BatchLayout, Component, Kit
from kit.laws.cost_counter import SavedTensors
from kit.laws.reference_parts import ReferenceMask
from kit.laws.setting import VOCABULARY
from kit.laws.subject import Subject, subjects_of

WIDTH = 64
HEADS = 4
ROWS = 2
LENGTHS = (128, 512, 1024)
REPEATS = 3
"""Timed passes, of which the minimum is reported, since it is the least disturbed."""


@dataclass(frozen=True)
class Measurement:
    """Time and memory of one forward and backward pass at one length."""

    length: int
    seconds: float
    bytes: int
    """The bytes of the activations saved for the backward pass."""
    baseline: str | None = None
    """The name of the baseline part."""
    baseline_seconds: float | None = None
    baseline_bytes: int | None = None

    @property
    def time_ratio(self) -> float | None:
        """The time divided by that of the baseline; below 1 is faster."""
        return self.seconds / self.baseline_seconds if self.baseline_seconds else None


def measure(component: type[Component], kit: Kit, lengths: Sequence[int] = LENGTHS) -> list[Measurement]:
    """Measures a part and its baseline at each length; empty for kinds that are not modules."""
    if component.kind not in _CALLS:
        return []
    baseline = kit.registry.baseline(component.kind)
    other = None if baseline is None or baseline.component is component else baseline.component
    causal = all(_takes_causal(each) for each in (component, other) if each is not None)
    parts = [_build(subjects_of(each, kit.registry)[0]) for each in (component, other) if each is not None]
    found = []
    for length in lengths:
        figures = [_time_and_memory(part, _CALLS[component.kind], length, causal) for part in parts]
        compared = (baseline.name, *figures[1]) if baseline is not None and other is not None else (None, None, None)
        found.append(Measurement(length, *figures[0], *compared))
    return found


def _takes_causal(component: type[Component]) -> bool:
    return not issubclass(component, Attention) or bool(component.capabilities.masks)


def _build(subject: Subject) -> Any:
    setting = subject.settings[0]
    sizes = {"heads": HEADS, "head_dim": WIDTH // HEADS, "length": max(LENGTHS), "width": WIDTH}
    torch.manual_seed(0)
    return subject.builder.build(
        setting.options, setting.dims(**sizes), setting.build_context(subject.builder, subject.component.kind)
    ).eval()


def _time_and_memory(part: Any, call: Callable[..., Tensor], length: int, causal: bool) -> tuple[float, int]:
    x = torch.randn(ROWS, length, WIDTH, generator=torch.Generator().manual_seed(0)).requires_grad_()
    layout = BatchLayout((ROWS, length), x.device, right_padded=True)
    with SavedTensors(list(part.parameters())) as saved:
        call(part, x, layout, causal).sum().backward()  # the first pass also warms up
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        call(part, x, layout, causal).sum().backward()
        best = min(best, time.perf_counter() - start)
    return best, saved.bytes


def _attention(part: Any, x: Tensor, layout: BatchLayout, causal: bool) -> Tensor:
    memory = None if part.dims.memory is None else x[..., : part.dims.memory]
    out: Tensor = part(x, memory, AttentionContext(layout, layout, ReferenceMask() if causal else None))
    return out


def _position(part: Any, x: Tensor, layout: BatchLayout, causal: bool) -> Tensor:
    context = AttentionContext(layout, layout, ReferenceMask(), part)
    q = x.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)
    scores = context.scores(context.rotate_queries(q), context.rotate_keys(q), 0.1)
    embedded: Tensor = part.embed(x, layout.positions)
    return embedded.sum() + context.masked_softmax(scores).sum()


def _residual(part: Any, x: Tensor, layout: BatchLayout, causal: bool) -> Tensor:
    out: Tensor = part.end_stream(part(part.begin_stream(x), [torch.tanh, torch.tanh]))
    return out


def _embedding(part: Any, x: Tensor, layout: BatchLayout, causal: bool) -> Tensor:
    ids = torch.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) % VOCABULARY
    out: Tensor = part.project(part(ids) + x)
    return out


_CALLS: dict[str, Callable[..., Tensor]] = {
    "attention": _attention,
    "position": _position,
    "residual": _residual,
    "embedding": _embedding,
    "norm": lambda part, x, layout, causal: part(x),
    "feedforward": lambda part, x, layout, causal: part(x, AttentionContext(layout, layout)),
    "stack": lambda part, x, layout, causal: part(part.embed(x, layout.positions), layout),
    "head": lambda part, x, layout, causal: part(x, layout, None),
}
"""The forward pass of a part of each kind."""
