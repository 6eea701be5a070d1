"""Laws of embeddings: ids to vectors and the tied way back."""

from __future__ import annotations

import torch

from kit.laws.batches import vectors
from kit.laws.comparing import close, finite
from kit.laws.law import broken, law
from kit.laws.setting import VOCABULARY, WIDTH
from kit.laws.subject import Subject


@law("embedding", "Ids of any shape become vectors of the model's width, and vectors a score for each id.")
def shape(subject: Subject) -> None:
    """There and back."""
    part = subject.build(subject.settings[0])
    for lead in ((), (3,), (2, 3), (0,)):
        ids = torch.zeros(lead, dtype=torch.long)
        if part(ids).shape != (*lead, WIDTH):
            broken(f"ids {list(lead)} become {list(part(ids).shape)}, wanted {[*lead, WIDTH]}")
        back = part.project(vectors(*lead, WIDTH))
        if back.shape != (*lead, VOCABULARY):
            broken(f"vectors {[*lead, WIDTH]} become {list(back.shape)}, wanted {[*lead, VOCABULARY]}")


@law("embedding", "A token's vector depends on its id and on nothing else of the batch.")
def id_by_id(subject: Subject) -> None:
    """In another order, beside others, alone; every id has a vector of its own."""
    part = subject.build(subject.settings[0])
    ids = torch.arange(VOCABULARY)
    all_at_once = part(ids)
    finite(all_at_once, "vectors")
    close(part(ids.flip(0)).flip(0), all_at_once, "in another order")
    close(torch.stack([part(each[None])[0] for each in ids]), all_at_once, "one by one")
    if torch.unique(all_at_once, dim=0).shape[0] < VOCABULARY:
        broken("two ids have the same vector")


@law("embedding", "The way back is the same table: it scores each id by a product with its vector, and trains it.")
def tied_way_back(subject: Subject) -> None:
    """The way back is linear; its scores rise and fall with what the vectors are made from."""
    part = subject.build(subject.settings[0])
    x, y = vectors(3, WIDTH), vectors(3, WIDTH, seed=1)
    close(part.project(2 * x - y), 2 * part.project(x) - part.project(y), "the way back is not linear")
    parameters = [parameter for parameter in part.parameters() if parameter.requires_grad]
    if not parameters:
        return
    there = torch.autograd.grad(part(torch.arange(VOCABULARY)).sum(), parameters, allow_unused=True)
    back = torch.autograd.grad(part.project(x).sin().sum(), parameters, allow_unused=True)
    shared = [one is not None and two is not None for one, two in zip(there, back, strict=True)]
    if not any(shared):
        broken("the way back shares no parameter with the way there")
