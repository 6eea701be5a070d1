"""Laws of what texts in one batch have to do with each other: nothing."""

from __future__ import annotations

import torch

from kit.laws.attending import LONG, SHORT, Attending, Texts
from kit.laws.batches import SIDES
from kit.laws.comparing import close, finite
from kit.laws.law import law
from kit.laws.subject import Subject


@law("attention", "A text gets the same alone and beside longer ones, padded on the left or on the right.")
def padding(subject: Subject) -> None:
    """Short and long texts."""
    for setting in subject.settings:
        attending = Attending(subject, setting)
        for lengths in ((3, SHORT, 1), (LONG - 77, LONG)):
            for side in SIDES:
                texts = attending.texts(lengths, side)
                with torch.no_grad():
                    together = attending(texts)
                    for row in range(len(lengths)):
                        alone = _alone(texts, row)
                        found = together[row] if texts.valid is None else together[row][texts.valid[row]]
                        close(found, attending(alone)[0], f"{setting.name}, {side} padding, row {row} of {lengths}")


@law("attention", "Each row of a batch gets what it would get by itself.")
def batch_equals_single(subject: Subject) -> None:
    """Texts of one length."""
    for setting in subject.settings:
        attending = Attending(subject, setting)
        texts = attending.texts((SHORT, SHORT, SHORT), memory=(4, 4, 4))
        with torch.no_grad():
            together = attending(texts)
            for row in range(3):
                single = attending(texts.rows(torch.tensor([row])))[0]
                close(together[row], single, f"{setting.name}, row {row}")


@law("attention", "Leaving padding out of memory changes nothing: packed equals padded.")
def packed(subject: Subject) -> None:
    """Also with a row that has no real token."""
    for setting in subject.settings:
        attending = Attending(subject, setting)
        for lengths in ((3, SHORT, 0), (LONG - 77, LONG)):
            for side in SIDES:
                texts = attending.texts(lengths, side)
                with torch.no_grad():
                    padded, found = attending(texts), attending(texts, packed=True)
                what = f"{setting.name}, {side} padding, texts of {lengths}"
                finite(padded, what)
                close(found, texts.real(padded), what)


def _alone(texts: Texts, row: int) -> Texts:
    """One row without its padding."""
    x, memory = texts.x[row], None if texts.memory is None else texts.memory[row]
    x = x if texts.valid is None else x[texts.valid[row]]
    if memory is not None and texts.memory_valid is not None:
        memory = memory[texts.memory_valid[row]]
    return Texts(x[None], None, None if memory is None else memory[None])
