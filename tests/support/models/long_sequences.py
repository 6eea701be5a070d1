"""Long rows for attentions that work in blocks: padding on any side, holes, and what one text gives alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kit import Attention, AttentionContext, AttentionRecorder, BatchLayout, Mask, Position, TokenBatch

CLOSE = 1e-10


def vectors(rows: int, length: int, width: int = 32, seed: int = 0) -> Tensor:
    """Random token vectors in float64."""
    return torch.randn(rows, length, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def layout(padding_mask: Tensor, **features: Tensor) -> BatchLayout:
    """A layout of these real tokens."""
    return BatchLayout.of(
        TokenBatch(
            torch.zeros(padding_mask.shape, dtype=torch.long),
            None if bool(padding_mask.all()) else padding_mask,
            features,
        )
    )


def scattered(rows: int, length: int, seed: int = 1) -> Tensor:
    """Padding on the right, on the left, in the middle, everywhere and nowhere, row by row."""
    padding_mask = torch.rand(rows, length, generator=torch.Generator().manual_seed(seed)) < 0.8
    kinds = [
        torch.arange(length) < length * 2 // 3,
        torch.arange(length) >= length // 3,
        torch.zeros(length, dtype=torch.bool),
        torch.ones(length, dtype=torch.bool),
    ]
    for row, kind in enumerate(kinds[:rows]):
        padding_mask[row] = kind
    return padding_mask


def run(part: Attention, x: Tensor, padding_mask: Tensor, mask: Mask | None = None, **more: Any) -> Tensor:
    """What the attention gives, with nothing remembered."""
    place = layout(padding_mask, **more.pop("features", {}))
    result: Tensor = part(x, None, AttentionContext(place, place, mask, **more))
    return result


@torch.no_grad()
def check_rows_alone(part: Attention, length: int, mask: Mask | None = None, position: Position | None = None) -> None:
    """Every row of a padded batch gives what its real tokens give alone, also packed; padding may hold anything."""
    x, padding_mask = vectors(6, length), scattered(6, length)
    together = run(part, x, padding_mask, mask, position=position)
    assert together.isfinite().all()
    loud = run(part, x.masked_fill(~padding_mask[..., None], 1e3), padding_mask, mask, position=position)
    packed_layout = layout(padding_mask).packed()
    packed = part(packed_layout.unpad(x), None, AttentionContext(packed_layout, packed_layout, mask, position))
    assert (packed - together[padding_mask]).abs().max() < CLOSE
    for row in range(6):
        real = padding_mask[row]
        if not real.any():
            continue
        alone = run(part, x[row, real][None], real[real][None], mask, position=position)[0]
        assert (together[row, real] - alone).abs().max() < CLOSE
        assert (loud[row, real] - alone).abs().max() < CLOSE


@torch.no_grad()
def check_watched(part: Attention, length: int, mask: Mask | None = None, position: Position | None = None) -> Tensor:
    """A watched part gives the same, and shows weights that hide what is not real; returns them."""
    x, padding_mask = vectors(6, length), scattered(6, length)
    recorder = AttentionRecorder()
    plain = run(part, x, padding_mask, mask, position=position)
    watched = run(part, x, padding_mask, mask, position=position, observer=recorder)
    assert (watched - plain)[padding_mask].abs().max() < CLOSE
    (weights,) = recorder.by_site.values()
    assert weights.shape[0] == 6 and weights.shape[2:] == (length, length)
    assert (weights.transpose(2, 3).movedim(1, 3)[~padding_mask] == 0).all()
    return weights


@torch.no_grad()
def check_future_exactly(part: Attention, length: int, mask: Mask) -> None:
    """Changing the future changes no bit of the past."""
    x = vectors(2, length)
    real = torch.ones(2, length, dtype=torch.bool)
    before = run(part, x, real, mask)
    for place in (1, 2, length // 3, length // 2, length - 1):
        changed = x.clone()
        changed[:, place:] = vectors(2, length - place, x.shape[-1], seed=place + 5) * 3
        after = run(part, changed, real, mask)
        assert torch.equal(before[:, :place], after[:, :place])
        assert not torch.equal(before[:, place:], after[:, place:])


@torch.no_grad()
def check_steps(part: Attention, length: int, mask: Mask, position: Position | None = None) -> None:
    """Going on in pieces of any size gives what all at once gives, also with padding in the pieces and rows chosen."""
    x, padding_mask = vectors(6, length), scattered(6, length)
    for real in (padding_mask, torch.ones_like(padding_mask)):
        whole = run(part, x, real, mask, position=position)
        for sizes in ((1,) * length, (length // 2, length - length // 2), (3, length - 5, 1, 1)):
            state, read, rows, first = part.start(), None, torch.arange(6), 0
            for number, size in enumerate(sizes):
                ids = torch.zeros(len(rows), size, dtype=torch.long)
                piece = real[rows, first : first + size]
                new = BatchLayout.of(TokenBatch(ids, None if bool(real.all()) else piece), read)
                read = new if read is None else read.join(new)
                found = part(x[rows, first : first + size], None, AttentionContext(new, read, mask, position), state)
                difference = (found - whole[rows, first : first + size])[piece].abs()
                assert not difference.numel() or difference.max() < CLOSE
                first += size
                if number == 1 and first < length:
                    chosen = torch.tensor([3, 0, 1, 4, 3, 5])
                    state.reorder(chosen)
                    read, rows = read.reorder(chosen), rows[chosen]


def check_gradients(part: Attention, length: int, mask: Mask | None = None) -> None:
    """Gradients are finite, reach every parameter, and what is hidden gets none."""
    x, padding_mask = vectors(6, length).requires_grad_(), scattered(6, length)
    out = run(part, x, padding_mask, mask)
    (out.square() * padding_mask[..., None]).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all() and (x.grad[~padding_mask] == 0).all()
    for name, parameter in part.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.any(), name
        parameter.grad = None
