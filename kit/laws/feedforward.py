"""Laws of feed-forward networks: independence of tokens unless declared, padding, causality, incremental decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kit.contracts.sublayer import Feedforward
from kit.laws.assertions import close, same
from kit.laws.batches import SIDES, layout_of, padding_mask_of, piece_sizes, slices, vectors
from kit.laws.law import broken, law
from kit.laws.reference_parts import ReferenceMask
from kit.laws.setting import WIDTH
from kit.laws.subject import Subject
from kit.sequence.attention_context import AttentionContext
from kit.sequence.batch_layout import BatchLayout
from kit.sequence.cache import Cache

LENGTH = 7


def _run(
    part: Any, x: Tensor, layout: BatchLayout, state: Cache | None = None, keys: BatchLayout | None = None
) -> Tensor:
    mask = ReferenceMask() if part.build_context.causal else None
    out: Tensor = part(layout.unpad(x), AttentionContext(layout, keys or layout, mask), state)
    return out


def _steps(part: Any, x: Tensor, padding_mask: Tensor | None, sizes: Sequence[int]) -> Tensor:
    state, past, outs = part.start(), None, []
    for piece in slices(x.shape[1], sizes):
        layout = layout_of(
            x.shape[0], piece.stop - piece.start, None if padding_mask is None else padding_mask[:, piece], past
        )
        past = layout if past is None else past.join(layout)
        outs.append(_run(part, x[:, piece], layout, state, past))
    return torch.cat(outs, 1)


@law("feedforward", "The output has the shape and dtype of the input, padded and packed.")
def shape(subject: Subject) -> None:
    """Runs single tokens, padded rows and rows without tokens."""
    for setting in subject.settings:
        part = subject.build(setting)
        for lengths in ((1,), (3, LENGTH), (0, 2)):
            layout = layout_of(len(lengths), max(lengths), padding_mask_of(lengths))
            for form in (layout, layout.packed()):
                x = vectors(len(lengths), max(lengths), WIDTH)
                out, wanted = _run(part, x, form), form.unpad(x)
                if out.shape != wanted.shape or out.dtype != wanted.dtype:
                    broken(f"{setting.name}: gives {list(out.shape)} {out.dtype}, wanted {list(wanted.shape)}")


def _unchanged(subject: Subject, found: Tensor, wanted: Tensor, what: str) -> None:
    """Requires equal bits; equality up to rounding if the part regroups tokens."""
    assert issubclass(subject.component, Feedforward)
    (close if subject.component.regroups_tokens else same)(found, wanted, what)


def _mixes(subject: Subject) -> bool:
    assert issubclass(subject.component, Feedforward)
    return subject.component.mixes_tokens


@law(
    "feedforward",
    "Each token is independent of all others, unless the part declares that it mixes tokens.",
    lambda subject: "it declares that it mixes tokens" if _mixes(subject) else None,
)
def token_independence(subject: Subject) -> None:
    """Changes one token, and compares all others bit for bit; up to rounding if the part regroups tokens."""
    for setting in subject.settings:
        part = subject.build(setting)
        layout = layout_of(2, LENGTH)
        x = vectors(2, LENGTH, WIDTH)
        before = _run(part, x, layout)
        changed = x.clone()
        changed[0, 3] = vectors(WIDTH, seed=8)
        after = _run(part, changed, layout)
        _unchanged(subject, after[1], before[1], f"{setting.name}: another row")
        others = torch.arange(LENGTH) != 3
        close(after[0, others], before[0, others], f"{setting.name}: other tokens of the row")


@law("feedforward", "In a decoder, later tokens do not change the output of earlier ones, bit for bit.")
def causality(subject: Subject) -> None:
    """Replaces tokens from every position on, and compares earlier outputs."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        part = subject.build(setting)
        x, layout = vectors(2, LENGTH, WIDTH), layout_of(2, LENGTH)
        before = _run(part, x, layout)
        for start in range(1, LENGTH):
            changed = x.clone()
            changed[:, start:] = vectors(2, LENGTH - start, WIDTH, seed=8)
            after = _run(part, changed, layout)
            _unchanged(subject, after[:, :start], before[:, :start], f"{setting.name}, changed from {start} on")


@law("feedforward", "A sequence gets the same output alone and in a batch, padded on either side, and packed.")
def padding_invariance(subject: Subject) -> None:
    """Compares batches, whose padding has large values, with packed and single sequences."""
    lengths = (3, LENGTH, 0, 1)
    for setting in subject.settings:
        part = subject.build(setting)
        for side in SIDES:
            padding_mask = padding_mask_of(lengths, side)
            assert padding_mask is not None
            x = vectors(4, LENGTH, WIDTH).masked_scatter(
                ~padding_mask[..., None], 50.0 * vectors(4, LENGTH, WIDTH, seed=4)
            )
            layout = layout_of(4, LENGTH, padding_mask)
            batched = _run(part, x, layout)
            close(_run(part, x, layout.packed()), batched[padding_mask], f"{setting.name}, {side} padding, packed")
            for row in (0, 1, 3):
                alone = _run(part, x[row][padding_mask[row]][None], layout_of(1, lengths[row]))[0]
                close(batched[row][padding_mask[row]], alone, f"{setting.name}, {side} padding, row {row} of {lengths}")


@law("feedforward", "Incremental decoding with a cache equals one pass, with padding, in pieces and after a reorder.")
def incremental_decoding(subject: Subject) -> None:
    """Compares decoding in pieces, and after a reorder, with one pass of a decoder."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        part = subject.build(setting)
        x = vectors(3, LENGTH, WIDTH)
        for side in SIDES:
            padding_mask = padding_mask_of((4, LENGTH, 1), side)
            full = _run(part, x, layout_of(3, LENGTH, padding_mask))
            for sizes in piece_sizes(LENGTH):
                found = _steps(part, x, padding_mask, sizes)
                close(found[padding_mask], full[padding_mask], f"{setting.name}, {side} padding, pieces of {sizes}")
        rows = torch.tensor([2, 0, 2])
        first, state = layout_of(3, 4), part.start()
        _run(part, x[:, :4], first, state)
        state.reorder(rows)
        later = layout_of(3, LENGTH - 4, after=first)
        found = _run(part, x[rows, 4:], later, state, first.join(later))
        close(found, _run(part, x, layout_of(3, LENGTH))[rows, 4:], f"{setting.name}, after a reorder")
