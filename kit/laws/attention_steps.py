"""Laws of an attention that goes on token by token with a state."""

from __future__ import annotations

import torch

from kit.contracts.attention import Attention
from kit.laws.attending import LONG, SHORT, Attending, Steps
from kit.laws.batches import SIDES, cuts
from kit.laws.comparing import close
from kit.laws.law import law
from kit.laws.subject import Subject


def _no_steps(subject: Subject) -> str | None:
    assert issubclass(subject.component, Attention)
    if not subject.component.abilities.steps:
        return "it does not go token by token"
    return None if any(setting.causal for setting in subject.settings) else "it stands in no decoder"


@law("attention", "State equals no state: token by token and in pieces, with padding on either side.", _no_steps)
def steps(subject: Subject) -> None:
    """Against the whole text at once; with gradients too, since memory is then kept in another way."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        attending = Attending(subject, setting)
        for lengths in ((SHORT,), (4, SHORT, 1), (LONG - 77, LONG)):
            for side in SIDES:
                texts = attending.texts(lengths, side)
                for sizes in cuts(max(lengths)):
                    what = f"{setting.name}, {side} padding, texts of {lengths} in pieces of {sizes}"
                    with torch.no_grad():
                        whole = texts.real(attending(texts))
                        close(texts.real(attending.in_steps(texts, sizes)), whole, what)
                    if max(lengths) == SHORT:
                        found = texts.real(attending.in_steps(texts, sizes))
                        close(found, whole, f"{what}, with gradients")


@law("attention", "Rows chosen from a state go on as if each were decoded alone.", _no_steps)
def select(subject: Subject) -> None:
    """A row is chosen twice, one is dropped, the order changes, twice in one text."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        attending = Attending(subject, setting)
        texts = attending.texts((SHORT, SHORT, SHORT), memory=(3, 6, 5))
        with torch.no_grad():
            whole = attending(texts)
            run = Steps(attending, texts)
            run.step(texts.x[:, :3])
            rows = torch.tensor([2, 0, 2, 1])
            run.select(rows)
            run.step(texts.x[rows, 3:4])
            chosen = torch.tensor([3, 0])
            run.select(chosen)
            rows = rows[chosen]
            found = run.step(texts.x[rows, 4:])
        close(found, whole[rows, 4:], f"{setting.name}, after choosing rows")
