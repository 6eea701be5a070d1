"""Laws of heads: scores read off real tokens only."""

from __future__ import annotations

from typing import Any

import torch

from kit.laws.batches import SIDES, layout_of, valid_of, vectors
from kit.laws.comparing import close, finite
from kit.laws.law import broken, law
from kit.laws.setting import WIDTH
from kit.laws.subject import Subject

LENGTHS = (3, 6, 1)


@law("head", "Scores for every token, or for every text, as the part declares.")
def shape(subject: Subject) -> None:
    """In rows and packed."""
    part = subject.build(subject.settings[0])
    layout = layout_of(3, 6, valid_of(LENGTHS))
    for lay in (layout, layout.packed()):
        x = lay.unpad(vectors(3, 6, WIDTH))
        out = part(x, lay, None)
        wanted = x.shape[:-1] if part.per_token else (3,)
        if out.shape[:-1] != wanted:
            broken(f"gives {list(out.shape)}, wanted {[*wanted, '...']}")


@law("head", "Padding has no influence, wherever it stands, and leaving it out of memory changes nothing.")
def padding(subject: Subject) -> None:
    """Against each text alone; a text without tokens gives finite scores."""
    part: Any = subject.build(subject.settings[0])
    for side in SIDES:
        valid = valid_of(LENGTHS, side)
        assert valid is not None
        x = vectors(3, 6, WIDTH).masked_scatter(~valid[..., None], 50.0 * vectors(3, 6, WIDTH, seed=4))
        layout = layout_of(3, 6, valid)
        together, packed = part(x, layout, None), part(layout.packed().unpad(x), layout.packed(), None)
        close(packed, together[valid] if part.per_token else together, f"{side} padding, packed")
        for row in range(3):
            alone = part(x[row][valid[row]][None], layout_of(1, LENGTHS[row]), None)[0]
            close(together[row][valid[row]] if part.per_token else together[row], alone, f"{side} padding, row {row}")
    empty = layout_of(2, 3, torch.tensor([[True] * 3, [False] * 3]))
    finite(part(vectors(2, 3, WIDTH), empty, None), "a text without tokens")
