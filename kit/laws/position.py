"""Laws of positions: where a token stands is all that counts, not how texts are cut or what was read before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kit.contracts.position import Position
from kit.errors import KitError
from kit.laws.batches import layout_of, vectors
from kit.laws.comparing import close, finite
from kit.laws.law import broken, law
from kit.laws.setting import WIDTH, Setting
from kit.laws.subject import Subject
from kit.laws.surroundings import PlainMask
from kit.layout import Layout
from kit.scope import Scope

LONG = 12


def _parts(subject: Subject) -> Iterator[tuple[Setting, Any]]:
    for setting in subject.settings:
        yield setting, subject.build(setting)


def _layout(length: int, shift: int = 0, rows: int = 1) -> Layout:
    return layout_of(rows, length, facts={"position": torch.arange(length)[None].expand(rows, -1) + shift})


def scores(part: Any, setting: Setting, queries: Layout, keys: Layout, q: Tensor, k: Tensor) -> Tensor:
    """Everything that a position does to scores: [B, H, Q, K]."""
    mask = PlainMask() if setting.causal else None
    scope = Scope(queries, keys, mask, part)
    result = scope.scores(scope.rotate_queries(q), scope.rotate_keys(k), 0.5)
    # What is hidden is of no concern.
    return result if scope.allowed is None else result.masked_fill(~scope.allowed, 0.0)


def _heads(setting: Setting, length: int, seed: int) -> Tensor:
    dims = setting.dims()
    return vectors(1, dims.heads, length, dims.head_width, seed=seed)


@law("position", "Vectors, queries, keys and scores keep their shape.")
def shape(subject: Subject) -> None:
    """For rows with positions of their own, for rows that share them, and for packed tokens."""
    for setting, part in _parts(subject):
        x, q = vectors(2, 5, WIDTH), _heads(setting, 5, 1).expand(2, -1, -1, -1)
        shared = torch.arange(5)[None]
        for at in (shared, shared.expand(2, -1)):
            for found, wanted in (
                (part.embed(x, at), x),
                (part.rotate(q, at, "query"), q),
                (part.rotate(q, at, "key"), q),
            ):
                if found.shape != wanted.shape or found.dtype != wanted.dtype:
                    broken(f"{setting.name}: gives {list(found.shape)} {found.dtype}, wanted {list(wanted.shape)}")
        flat = part.embed(x.flatten(0, 1), shared.expand(2, -1).flatten())
        close(flat, part.embed(x, shared).flatten(0, 1), f"{setting.name}: packed tokens")
        bias = part.bias(shared, shared)
        heads = (1, setting.dims().heads)
        if bias is not None and (bias.dim() != 4 or bias.shape[1] not in heads or bias.shape[2:] != (5, 5)):
            broken(f"{setting.name}: a bias is {list(bias.shape)}, wanted [1, {heads[1]}, 5, 5]")


@law("position", "An offset equals a slice: what a later token gets does not depend on where reading began.")
def offset_equals_slice(subject: Subject) -> None:
    """As a decoder does that reads step by step."""
    for setting, part in _parts(subject):
        x, q, k = vectors(1, LONG, WIDTH), _heads(setting, LONG, 1), _heads(setting, LONG, 2)
        whole = _layout(LONG)
        embedded, full = part.embed(x, whole.at), scores(part, setting, whole, whole, q, k)
        for start in (1, 5, LONG - 1):
            later = layout_of(1, LONG - start, after=layout_of(1, start))
            what = f"{setting.name}, from token {start} on"
            close(part.embed(x[:, start:], later.at), embedded[:, start:], f"{what}: vectors")
            for side, values in (("query", q), ("key", k)):
                turned = part.rotate(values[:, :, start:], later.at, side)
                close(turned, part.rotate(values, whole.at, side)[:, :, start:], f"{what}: turned")
            keys = part.rotate(k, whole.at, "key")
            scope = Scope(later, layout_of(1, start).join(later), PlainMask() if setting.causal else None, part)
            found = scope.scores(scope.rotate_queries(q[:, :, start:]), keys, 0.5)
            found = found if scope.allowed is None else found.masked_fill(~scope.allowed, 0.0)
            close(found, full[:, :, start:], f"{what}: scores")


def _relative(subject: Subject) -> str | None:
    assert issubclass(subject.component, Position)
    return None if subject.component.relative else "it does not declare that only distances count"


@law("position", "Only distances count, where the part declares it: moving a whole text changes no score.", _relative)
def shift_equivariance(subject: Subject) -> None:
    """By a little and by a lot."""
    for setting, part in _parts(subject):
        x, q, k = vectors(1, LONG, WIDTH), _heads(setting, LONG, 1), _heads(setting, LONG, 2)
        here = _layout(LONG)
        wanted, embedded = scores(part, setting, here, here, q, k), part.embed(x, here.at)
        for shift in (1, 37, 200):
            there = _layout(LONG, shift)
            close(scores(part, setting, there, there, q, k), wanted, f"{setting.name}, moved by {shift}", 1e-9)
            close(part.embed(x, there.at), embedded, f"{setting.name}, vectors moved by {shift}")


@law("position", "Every position tells tokens apart: somewhere, order makes a difference, or it overrides no place.")
def order_matters(subject: Subject) -> None:
    """Else it would be no position."""
    for setting, part in _parts(subject):
        if not part.places():
            continue
        x, q, k = vectors(1, LONG, WIDTH), _heads(setting, LONG, 1), _heads(setting, LONG, 2)
        near, far = _layout(LONG), layout_of(1, LONG, facts={"position": torch.arange(LONG)[None] * 3})
        moved = not torch.equal(part.embed(x, near.at), part.embed(x, far.at))
        spread = not torch.equal(scores(part, setting, near, near, q, k), scores(part, setting, far, far, q, k))
        flipped = scores(part, setting, near, near, q, k.flip(2)).flip(3)
        turned = not torch.equal(flipped, scores(part, setting, near, near, q, k))
        if not (moved or spread or turned):
            broken(f"{setting.name}: no place makes any difference")


@law("position", "Past the length that it was made for it does what `longest` says: goes on, or refuses with a reason.")
def past_the_length(subject: Subject) -> None:
    """Just past it, and far past it."""
    for setting, part in _parts(subject):
        last = part.longest if part.longest is not None else setting.dims().length
        q, k = _heads(setting, 3, 1), _heads(setting, 3, 2)
        for start in (last - 3, last, 10 * last):
            layout = _layout(3, start)
            refused = None
            try:
                finite(part.embed(vectors(1, 3, WIDTH), layout.at), f"{setting.name}: vectors at {start}")
                finite(scores(part, setting, layout, layout, q, k), f"{setting.name}: scores at {start}")
            except KitError as error:
                if type(error) is not KitError and start < last:
                    raise
                refused = error
            allowed = part.longest is None or start + 3 <= part.longest
            if allowed and refused is not None:
                raise refused
            if not allowed and refused is None:
                broken(
                    f"{setting.name}: `longest` is {part.longest}, and a token at {start + 2} is served all the same"
                )


@law("position", "Neighbours far into a text are told apart in half precision as in double.")
def counts_exactly(subject: Subject) -> None:
    """Whole numbers beyond 256 cannot be told apart in bfloat16, so positions must not be counted in it."""
    for setting, part in _parts(subject):
        last = part.longest if part.longest is not None else 2000
        layout = _layout(4, last - 4)
        q, k = _heads(setting, 4, 1).bfloat16(), _heads(setting, 4, 2).bfloat16()
        x = vectors(1, 4, WIDTH).bfloat16()
        part = part.bfloat16()
        rough = part.embed(x, layout.at), scores(part, setting, layout, layout, q, k)
        part = part.double()
        exact = part.embed(x.double(), layout.at), scores(part, setting, layout, layout, q.double(), k.double())
        for name, found, wanted in zip(("vectors", "scores"), rough, exact, strict=True):
            close(found.double(), wanted, f"{setting.name}: {name} at {last - 4} in bfloat16", 0.05)
