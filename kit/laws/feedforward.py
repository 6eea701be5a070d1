"""Laws of feed-forward layers: each token by itself unless declared, whatever stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kit.contracts.feedforward import Feedforward
from kit.laws.batches import SIDES, cuts, layout_of, pieces, valid_of, vectors
from kit.laws.comparing import close, same
from kit.laws.law import broken, law
from kit.laws.setting import WIDTH
from kit.laws.subject import Subject
from kit.laws.surroundings import PlainMask
from kit.layout import Layout
from kit.scope import Scope
from kit.state import State

LENGTH = 7


def _run(part: Any, x: Tensor, layout: Layout, state: State | None = None, keys: Layout | None = None) -> Tensor:
    mask = PlainMask() if part.site.causal else None
    out: Tensor = part(layout.unpad(x), Scope(layout, keys or layout, mask), state)
    return out


def _steps(part: Any, x: Tensor, valid: Tensor | None, sizes: Sequence[int]) -> Tensor:
    state, read, outs = part.start(), None, []
    for piece in pieces(x.shape[1], sizes):
        layout = layout_of(x.shape[0], piece.stop - piece.start, None if valid is None else valid[:, piece], read)
        read = layout if read is None else read.join(layout)
        outs.append(_run(part, x[:, piece], layout, state, read))
    return torch.cat(outs, 1)


@law("feedforward", "The shape stays, in rows and packed.")
def shape(subject: Subject) -> None:
    """Also for one token, and for rows without any."""
    for setting in subject.settings:
        part = subject.build(setting)
        for lengths in ((1,), (3, LENGTH), (0, 2)):
            layout = layout_of(len(lengths), max(lengths), valid_of(lengths))
            for lay in (layout, layout.packed()):
                x = vectors(len(lengths), max(lengths), WIDTH)
                out, wanted = _run(part, x, lay), lay.unpad(x)
                if out.shape != wanted.shape or out.dtype != wanted.dtype:
                    broken(f"{setting.name}: gives {list(out.shape)} {out.dtype}, wanted {list(wanted.shape)}")


def _unmoved(subject: Subject, found: Tensor, wanted: Tensor, what: str) -> None:
    """The same bits; where tokens are regrouped, the same up to rounding."""
    assert issubclass(subject.component, Feedforward)
    (close if subject.component.regroups_tokens else same)(found, wanted, what)


def _mixes(subject: Subject) -> bool:
    assert issubclass(subject.component, Feedforward)
    return subject.component.mixes_tokens


@law(
    "feedforward",
    "Each token is treated by itself, unless the part declares that it mixes them.",
    lambda subject: "it declares that it mixes tokens" if _mixes(subject) else None,
)
def token_by_token(subject: Subject) -> None:
    """Changing one token changes no other, bit for bit; up to rounding where the part says that it regroups them."""
    for setting in subject.settings:
        part = subject.build(setting)
        layout = layout_of(2, LENGTH)
        x = vectors(2, LENGTH, WIDTH)
        before = _run(part, x, layout)
        changed = x.clone()
        changed[0, 3] = vectors(WIDTH, seed=8)
        after = _run(part, changed, layout)
        _unmoved(subject, after[1], before[1], f"{setting.name}: another row")
        others = torch.arange(LENGTH) != 3
        close(after[0, others], before[0, others], f"{setting.name}: other tokens of the row")


@law("feedforward", "In a decoder nothing that comes later changes a token, bit for bit.")
def causality(subject: Subject) -> None:
    """Wherever the future begins."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        part = subject.build(setting)
        x, layout = vectors(2, LENGTH, WIDTH), layout_of(2, LENGTH)
        before = _run(part, x, layout)
        for place in range(1, LENGTH):
            changed = x.clone()
            changed[:, place:] = vectors(2, LENGTH - place, WIDTH, seed=8)
            after = _run(part, changed, layout)
            _unmoved(subject, after[:, :place], before[:, :place], f"{setting.name}, changed from {place} on")


@law("feedforward", "A text gets the same alone and beside others, padded on either side, and packed.")
def padding(subject: Subject) -> None:
    """Padding holds large numbers, which must not matter."""
    lengths = (3, LENGTH, 0, 1)
    for setting in subject.settings:
        part = subject.build(setting)
        for side in SIDES:
            valid = valid_of(lengths, side)
            assert valid is not None
            x = vectors(4, LENGTH, WIDTH).masked_scatter(~valid[..., None], 50.0 * vectors(4, LENGTH, WIDTH, seed=4))
            layout = layout_of(4, LENGTH, valid)
            together = _run(part, x, layout)
            close(_run(part, x, layout.packed()), together[valid], f"{setting.name}, {side} padding, packed")
            for row in (0, 1, 3):
                alone = _run(part, x[row][valid[row]][None], layout_of(1, lengths[row]))[0]
                close(together[row][valid[row]], alone, f"{setting.name}, {side} padding, row {row} of {lengths}")


@law("feedforward", "State equals no state: token by token and in pieces, with padding, and after rows were chosen.")
def steps(subject: Subject) -> None:
    """In a decoder."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        part = subject.build(setting)
        x = vectors(3, LENGTH, WIDTH)
        for side in SIDES:
            valid = valid_of((4, LENGTH, 1), side)
            whole = _run(part, x, layout_of(3, LENGTH, valid))
            for sizes in cuts(LENGTH):
                found = _steps(part, x, valid, sizes)
                close(found[valid], whole[valid], f"{setting.name}, {side} padding, pieces of {sizes}")
        rows = torch.tensor([2, 0, 2])
        first, state = layout_of(3, 4), part.start()
        _run(part, x[:, :4], first, state)
        state.select(rows)
        later = layout_of(3, LENGTH - 4, after=first)
        found = _run(part, x[rows, 4:], later, state, first.join(later))
        close(found, _run(part, x, layout_of(3, LENGTH))[rows, 4:], f"{setting.name}, after choosing rows")
