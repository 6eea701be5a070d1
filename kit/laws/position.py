"""Laws of positions: offsets, shifts, length limits and precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kit.contracts.position import Position
from kit.errors import KitError
from kit.laws.assertions import close, finite
from kit.laws.batches import layout_of, vectors
from kit.laws.law import broken, law
from kit.laws.reference_parts import ReferenceMask
from kit.laws.setting import WIDTH, Setting
from kit.laws.subject import Subject
from kit.sequence.attention_context import AttentionContext
from kit.sequence.batch_layout import BatchLayout

LENGTH = 12


def _parts(subject: Subject) -> Iterator[tuple[Setting, Any]]:
    for setting in subject.settings:
        yield setting, subject.build(setting)


def _layout(length: int, shift: int = 0, rows: int = 1) -> BatchLayout:
    return layout_of(rows, length, features={"position": torch.arange(length)[None].expand(rows, -1) + shift})


def scores(part: Any, setting: Setting, queries: BatchLayout, keys: BatchLayout, q: Tensor, k: Tensor) -> Tensor:
    """Computes attention scores [B, H, Q, K] with rotation and biases of a position; masked ones are 0."""
    mask = ReferenceMask() if setting.causal else None
    context = AttentionContext(queries, keys, mask, part)
    result = context.scores(context.rotate_queries(q), context.rotate_keys(k), 0.5)
    # Masked scores are not compared.
    return result if context.attention_mask is None else result.masked_fill(~context.attention_mask, 0.0)


def _heads(setting: Setting, length: int, seed: int) -> Tensor:
    dims = setting.dims()
    return vectors(1, dims.heads, length, dims.head_dim, seed=seed)


@law("position", "Vectors, queries, keys and scores keep their shape.")
def shape(subject: Subject) -> None:
    """Checks shapes for positions that rows share, for positions of each row, and for packed tokens."""
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


@law(
    "position",
    "An offset equals a slice: the encoding of a token only depends on its position, also in incremental decoding.",
)
def position_offset(subject: Subject) -> None:
    """Compares tokens that are decoded after others with those of one pass."""
    for setting, part in _parts(subject):
        x, q, k = vectors(1, LENGTH, WIDTH), _heads(setting, LENGTH, 1), _heads(setting, LENGTH, 2)
        whole = _layout(LENGTH)
        embedded, full_scores = part.embed(x, whole.positions), scores(part, setting, whole, whole, q, k)
        for start in (1, 5, LENGTH - 1):
            later = layout_of(1, LENGTH - start, after=layout_of(1, start))
            what = f"{setting.name}, from token {start} on"
            close(part.embed(x[:, start:], later.positions), embedded[:, start:], f"{what}: vectors")
            for side, values in (("query", q), ("key", k)):
                rotated = part.rotate(values[:, :, start:], later.positions, side)
                close(rotated, part.rotate(values, whole.positions, side)[:, :, start:], f"{what}: rotated")
            keys = part.rotate(k, whole.positions, "key")
            context = AttentionContext(
                later, layout_of(1, start).join(later), ReferenceMask() if setting.causal else None, part
            )
            found = context.scores(context.rotate_queries(q[:, :, start:]), keys, 0.5)
            found = found if context.attention_mask is None else found.masked_fill(~context.attention_mask, 0.0)
            close(found, full_scores[:, :, start:], f"{what}: scores")


def _absolute(subject: Subject) -> str | None:
    assert issubclass(subject.component, Position)
    return None if subject.component.relative else "it does not declare to be relative"


@law("position", "Shifting all positions changes no attention score, if the part declares to be relative.", _absolute)
def shift_invariance(subject: Subject) -> None:
    """Compares scores and embeddings after small and large shifts."""
    for setting, part in _parts(subject):
        x, q, k = vectors(1, LENGTH, WIDTH), _heads(setting, LENGTH, 1), _heads(setting, LENGTH, 2)
        original = _layout(LENGTH)
        wanted, embedded = scores(part, setting, original, original, q, k), part.embed(x, original.positions)
        for shift in (1, 37, 200):
            shifted = _layout(LENGTH, shift)
            close(scores(part, setting, shifted, shifted, q, k), wanted, f"{setting.name}, shifted by {shift}", 1e-9)
            close(part.embed(x, shifted.positions), embedded, f"{setting.name}, vectors shifted by {shift}")


@law("position", "The order of tokens makes a difference, unless the part has no location.")
def order_matters(subject: Subject) -> None:
    """Compares embeddings, scores of stretched positions and scores of reversed keys."""
    for setting, part in _parts(subject):
        if not part.locations:
            continue
        x, q, k = vectors(1, LENGTH, WIDTH), _heads(setting, LENGTH, 1), _heads(setting, LENGTH, 2)
        near, far = _layout(LENGTH), layout_of(1, LENGTH, features={"position": torch.arange(LENGTH)[None] * 3})
        embeddings_differ = not torch.equal(part.embed(x, near.positions), part.embed(x, far.positions))
        distances_differ = not torch.equal(
            scores(part, setting, near, near, q, k), scores(part, setting, far, far, q, k)
        )
        flipped = scores(part, setting, near, near, q, k.flip(2)).flip(3)
        order_differs = not torch.equal(flipped, scores(part, setting, near, near, q, k))
        if not (embeddings_differ or distances_differ or order_differs):
            broken(f"{setting.name}: positions make no difference")


@law("position", "Positions beyond `longest` are refused with a reason; all others work.")
def length_limit(subject: Subject) -> None:
    """Runs positions below the limit, just above it and far above it."""
    for setting, part in _parts(subject):
        last = part.longest if part.longest is not None else setting.dims().length
        q, k = _heads(setting, 3, 1), _heads(setting, 3, 2)
        for start in (last - 3, last, 10 * last):
            layout = _layout(3, start)
            refused = None
            try:
                finite(part.embed(vectors(1, 3, WIDTH), layout.positions), f"{setting.name}: vectors at {start}")
                finite(scores(part, setting, layout, layout, q, k), f"{setting.name}: scores at {start}")
            except KitError as error:
                if type(error) is not KitError and start < last:
                    raise
                refused = error
            allowed = part.longest is None or start + 3 <= part.longest
            if allowed and refused is not None:
                raise refused
            if not allowed and refused is None:
                broken(f"{setting.name}: `longest` is {part.longest}, and position {start + 2} is not refused")


@law("position", "Large positions are exact in bfloat16: adjacent tokens differ as in float64.")
def half_precision(subject: Subject) -> None:
    """Compares with float64; positions must not be computed in bfloat16, which rounds integers above 256."""
    for setting, part in _parts(subject):
        last = part.longest if part.longest is not None else 2000
        layout = _layout(4, last - 4)
        q, k = _heads(setting, 4, 1).bfloat16(), _heads(setting, 4, 2).bfloat16()
        x = vectors(1, 4, WIDTH).bfloat16()
        part = part.bfloat16()
        bf16 = part.embed(x, layout.positions), scores(part, setting, layout, layout, q, k)
        part = part.double()
        exact = part.embed(x.double(), layout.positions), scores(part, setting, layout, layout, q.double(), k.double())
        for name, found, wanted in zip(("vectors", "scores"), bf16, exact, strict=True):
            close(found.double(), wanted, f"{setting.name}: {name} at {last - 4} in bfloat16", 0.05)
