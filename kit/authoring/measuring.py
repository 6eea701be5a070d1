"""How fast a part is and what it keeps in memory, beside the yardstick of its kind, at three lengths."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kit.component import Component
from kit.contracts.attention import Attention
from kit.kit import Kit
from kit.laws.growth import Kept
from kit.laws.setting import VOCABULARY
from kit.laws.subject import Subject, subjects_of
from kit.laws.surroundings import PlainMask
from kit.layout import Layout
from kit.scope import Scope

WIDTH = 64
HEADS = 4
ROWS = 2
LENGTHS = (128, 512, 1024)
REPEATS = 3
"""Of so many passes the quickest counts: the others were disturbed."""


@dataclass(frozen=True)
class Measurement:
    """A pass forward and back over texts of one length."""

    length: int
    seconds: float
    bytes: int
    """What is kept for gradients."""
    beside: str | None = None
    """The part it is measured beside."""
    beside_seconds: float | None = None
    beside_bytes: int | None = None

    @property
    def times(self) -> float | None:
        """How many times as long as the other takes; less is faster."""
        return self.seconds / self.beside_seconds if self.beside_seconds else None


def measure(component: type[Component], kit: Kit, lengths: Sequence[int] = LENGTHS) -> list[Measurement]:
    """One for each length; none for parts that are no modules."""
    if component.kind not in _CALLS:
        return []
    yardstick = kit.registry.yardstick(component.kind)
    other = None if yardstick is None or yardstick.component is component else yardstick.component
    causal = all(_takes_causal(each) for each in (component, other) if each is not None)
    made = [_built(subjects_of(each, kit.registry)[0]) for each in (component, other) if each is not None]
    found = []
    for length in lengths:
        figures = [_pass(part, _CALLS[component.kind], length, causal) for part in made]
        beside = (yardstick.name, *figures[1]) if yardstick is not None and other is not None else (None, None, None)
        found.append(Measurement(length, *figures[0], *beside))
    return found


def _takes_causal(component: type[Component]) -> bool:
    return not issubclass(component, Attention) or bool(component.abilities.masks)


def _built(subject: Subject) -> Any:
    setting = subject.settings[0]
    sizes = {"heads": HEADS, "head_width": WIDTH // HEADS, "length": max(LENGTHS), "width": WIDTH}
    torch.manual_seed(0)
    return subject.bench.build(
        setting.options, setting.dims(**sizes), setting.site(subject.bench, subject.component.kind)
    ).eval()


def _pass(part: Any, call: Callable[..., Tensor], length: int, causal: bool) -> tuple[float, int]:
    x = torch.randn(ROWS, length, WIDTH, generator=torch.Generator().manual_seed(0)).requires_grad_()
    layout = Layout((ROWS, length), x.device, right_padded=True)
    with Kept(list(part.parameters())) as kept:
        call(part, x, layout, causal).sum().backward()  # the first pass also warms up
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        call(part, x, layout, causal).sum().backward()
        best = min(best, time.perf_counter() - start)
    return best, kept.bytes


def _attention(part: Any, x: Tensor, layout: Layout, causal: bool) -> Tensor:
    memory = None if part.dims.memory is None else x[..., : part.dims.memory]
    out: Tensor = part(x, memory, Scope(layout, layout, PlainMask() if causal else None))
    return out


def _position(part: Any, x: Tensor, layout: Layout, causal: bool) -> Tensor:
    scope = Scope(layout, layout, PlainMask(), part)
    q = x.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)
    scores = scope.scores(scope.rotate_queries(q), scope.rotate_keys(q), 0.1)
    placed: Tensor = part.embed(x, layout.at)
    return placed.sum() + scope.weigh(scores).sum()


def _residual(part: Any, x: Tensor, layout: Layout, causal: bool) -> Tensor:
    out: Tensor = part.leave(part(part.enter(x), [torch.tanh, torch.tanh]))
    return out


def _embedding(part: Any, x: Tensor, layout: Layout, causal: bool) -> Tensor:
    ids = torch.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) % VOCABULARY
    out: Tensor = part.project(part(ids) + x)
    return out


_CALLS: dict[str, Callable[..., Tensor]] = {
    "attention": _attention,
    "position": _position,
    "residual": _residual,
    "embedding": _embedding,
    "norm": lambda part, x, layout, causal: part(x),
    "feedforward": lambda part, x, layout, causal: part(x, Scope(layout, layout)),
    "stack": lambda part, x, layout, causal: part(part.embed(x, layout.at), layout),
    "head": lambda part, x, layout, causal: part(x, layout, None),
}
"""By kind."""
