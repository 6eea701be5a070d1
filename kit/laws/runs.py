"""How a part of each kind is run on numbers that have gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kit.contracts.attention import Attention
from kit.contracts.stack import Memory
from kit.laws.batches import groups, layout_of, valid_of, vectors
from kit.laws.setting import MEMORY, VOCABULARY, WIDTH, Setting
from kit.laws.subject import Subject
from kit.layout import Layout
from kit.scope import Scope

Inputs = tuple[Tensor, ...]
Run = tuple[Inputs, Callable[..., Tensor]]
LENGTHS = (4, 6)


def _layout(x: Tensor, lengths: tuple[int, ...]) -> Layout:
    """Padding and facts, except where there are no numbers to look at."""
    shape = (x.shape[0], x.shape[1])
    if x.is_meta:
        return Layout(shape, x.device, facts={"group": torch.zeros(shape, dtype=torch.long, device=x.device)})
    valid = valid_of(lengths)
    return layout_of(*shape, valid, facts=groups(valid, *shape))


def _attention(subject: Subject, setting: Setting) -> Run:
    def call(part: Any, x: Tensor, memory: Tensor | None = None) -> Tensor:
        assert issubclass(subject.component, Attention)
        queries = _layout(x, LENGTHS)
        keys = queries if memory is None else _layout(memory, (5, 3))
        position = setting.position(part.dims, subject.component)
        out: Tensor = part(x, memory, Scope(queries, keys, setting.mask, position))
        return queries.packed().unpad(out) if queries.valid is not None else out

    x = vectors(2, 6, WIDTH)
    return ((x, vectors(2, 5, MEMORY, seed=1)) if setting.memory else (x,)), call


def _position(subject: Subject, setting: Setting) -> Run:
    """All four places at once."""

    def call(part: Any, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        layout = _layout(x, (6, 6))
        scope = Scope(layout, layout, setting.mask, part)
        q_turned, k_turned = scope.rotate_queries(q), scope.rotate_keys(k)
        scores = scope.scores(q_turned, k_turned, 0.5)
        return torch.cat([part.embed(x, layout.at).flatten(), scores.flatten()])

    heads = setting.dims().heads
    width = setting.dims().head_width
    return (vectors(2, 6, WIDTH), vectors(2, heads, 6, width, seed=1), vectors(2, heads, 6, width, seed=2)), call


def _norm(subject: Subject, setting: Setting) -> Run:
    return (vectors(2, 6, WIDTH),), lambda part, x: part(x)


def _residual(subject: Subject, setting: Setting) -> Run:
    def call(part: Any, x: Tensor, weights: Tensor) -> Tensor:
        sublayers = [lambda y, w=weight: torch.tanh(y @ w) for weight in weights.unbind(0)]
        out: Tensor = part.leave(part(part.enter(x), sublayers))
        return out

    return (vectors(2, 6, WIDTH), vectors(2, WIDTH, WIDTH, seed=1) / WIDTH**0.5), call


def _feedforward(subject: Subject, setting: Setting) -> Run:
    def call(part: Any, x: Tensor) -> Tensor:
        layout = _layout(x, LENGTHS)
        out: Tensor = part(x, Scope(layout, layout, setting.mask))
        return layout.packed().unpad(out) if layout.valid is not None else out

    return (vectors(2, 6, WIDTH),), call


def _embedding(subject: Subject, setting: Setting) -> Run:
    """There and back."""

    def call(part: Any, x: Tensor) -> Tensor:
        ids = torch.arange(VOCABULARY, device=x.device).repeat(2)
        facts = {name: (ids % 2).long() for name in part.reads}
        return torch.cat([part.mark(part(ids), facts).flatten(), part.project(x).flatten()])

    return (vectors(2, 6, WIDTH),), call


def _stack(subject: Subject, setting: Setting) -> Run:
    def call(part: Any, x: Tensor, memory: Tensor | None = None) -> Tensor:
        layout = _layout(x, LENGTHS)
        kept = None if memory is None else Memory(memory, _layout(memory, (5, 3)))
        out: Tensor = part(part.embed(x, layout.at), layout, kept)
        return layout.packed().unpad(out) if layout.valid is not None else out

    x = vectors(2, 6, WIDTH)
    return ((x, vectors(2, 5, MEMORY, seed=1)) if setting.memory else (x,)), call


def _head(subject: Subject, setting: Setting) -> Run:
    def call(part: Any, x: Tensor) -> Tensor:
        layout = _layout(x, LENGTHS)
        out: Tensor = part(x, layout, None)
        return layout.packed().unpad(out) if part.per_token and layout.valid is not None else out

    return (vectors(2, 6, WIDTH),), call


def ask(mask: Any) -> Tensor | None:
    """Masks give no numbers: what a text of some tokens may see."""
    facts = {name: torch.zeros(2, 6, dtype=torch.long) for name in mask.needs}
    layout = Layout((2, 6), torch.get_default_device(), facts=facts)
    return Scope(layout, layout, mask).allowed


RUNS: dict[str, Callable[[Subject, Setting], Run]] = {
    "attention": _attention,
    "position": _position,
    "norm": _norm,
    "residual": _residual,
    "feedforward": _feedforward,
    "embedding": _embedding,
    "stack": _stack,
    "head": _head,
}
"""By kind; masks are no modules."""
