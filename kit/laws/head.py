"""Laws of heads: logits of real tokens or of sequences."""

from __future__ import annotations

from typing import Any

import torch

from kit.laws.assertions import close, finite
from kit.laws.batches import SIDES, layout_of, padding_mask_of, vectors
from kit.laws.law import broken, law
from kit.laws.setting import WIDTH
from kit.laws.subject import Subject

LENGTHS = (3, 6, 1)


@law("head", "Logits for every token or for every sequence, as the part declares.")
def shape(subject: Subject) -> None:
    """Checks the leading axes of logits, padded and packed."""
    part = subject.build(subject.settings[0])
    layout = layout_of(3, 6, padding_mask_of(LENGTHS))
    for form in (layout, layout.packed()):
        x = form.unpad(vectors(3, 6, WIDTH))
        out = part(x, form, None)
        wanted = x.shape[:-1] if part.per_token else (3,)
        if out.shape[:-1] != wanted:
            broken(f"gives {list(out.shape)}, wanted {[*wanted, '...']}")


@law("head", "Padding has no influence, wherever it is, and packed sequences get the same logits.")
def padding_invariance(subject: Subject) -> None:
    """Compares with packed and single sequences; a sequence without tokens must get finite logits."""
    part: Any = subject.build(subject.settings[0])
    for side in SIDES:
        padding_mask = padding_mask_of(LENGTHS, side)
        assert padding_mask is not None
        x = vectors(3, 6, WIDTH).masked_scatter(~padding_mask[..., None], 50.0 * vectors(3, 6, WIDTH, seed=4))
        layout = layout_of(3, 6, padding_mask)
        batched, packed = part(x, layout, None), part(layout.packed().unpad(x), layout.packed(), None)
        close(packed, batched[padding_mask] if part.per_token else batched, f"{side} padding, packed")
        for row in range(3):
            alone = part(x[row][padding_mask[row]][None], layout_of(1, LENGTHS[row]), None)[0]
            close(
                batched[row][padding_mask[row]] if part.per_token else batched[row],
                alone,
                f"{side} padding, row {row}",
            )
    empty = layout_of(2, 3, torch.tensor([[True] * 3, [False] * 3]))
    finite(part(vectors(2, 3, WIDTH), empty, None), "a sequence without tokens")


@law("head", "Gradients do not depend on the logits, if the part declares that it does not keep them.")
def overwritten_logits(subject: Subject) -> None:
    """The logits are overwritten before the backward pass, as a loss may do to save memory."""
    part: Any = subject.build(subject.settings[0])
    if part.keeps_logits(None):
        return
    layout = layout_of(3, 6, padding_mask_of(LENGTHS)).packed()
    gradients: list[Any] = []
    for overwrite in (False, True):
        x = layout.unpad(vectors(3, 6, WIDTH)).requires_grad_()
        logits = part(x, layout, None)
        if overwrite:
            logits.data.fill_(7.0)
        logits.backward(torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view_as(logits))
        gradients.append(x.grad)
    close(gradients[1], gradients[0], "gradients after the logits were overwritten")
