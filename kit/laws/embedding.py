"""Laws of embeddings: ids to vectors, and the tied projection to the vocabulary."""

from __future__ import annotations

import torch

from kit.laws.assertions import close, finite
from kit.laws.batches import vectors
from kit.laws.law import broken, law
from kit.laws.setting import VOCABULARY, WIDTH
from kit.laws.subject import Subject


@law("embedding", "Ids of any shape become vectors of the model's width, and vectors become logits.")
def shape(subject: Subject) -> None:
    """Checks the shapes of embeddings [..., D] and logits [..., V]."""
    part = subject.build(subject.settings[0])
    for lead in ((), (3,), (2, 3), (0,)):
        ids = torch.zeros(lead, dtype=torch.long)
        if part(ids).shape != (*lead, WIDTH):
            broken(f"ids {list(lead)} become {list(part(ids).shape)}, wanted {[*lead, WIDTH]}")
        back = part.project(vectors(*lead, WIDTH))
        if back.shape != (*lead, VOCABULARY):
            broken(f"vectors {[*lead, WIDTH]} become {list(back.shape)}, wanted {[*lead, VOCABULARY]}")


@law("embedding", "The vector of a token only depends on its id.")
def token_independence(subject: Subject) -> None:
    """Embeds ids in another order and one by one; every id must have a different vector."""
    part = subject.build(subject.settings[0])
    ids = torch.arange(VOCABULARY)
    all_at_once = part(ids)
    finite(all_at_once, "vectors")
    close(part(ids.flip(0)).flip(0), all_at_once, "in another order")
    close(torch.stack([part(each[None])[0] for each in ids]), all_at_once, "one by one")
    if torch.unique(all_at_once, dim=0).shape[0] < VOCABULARY:
        broken("two ids have the same vector")


@law("embedding", "The tied projection is linear and shares parameters with the embedding.")
def tied_projection(subject: Subject) -> None:
    """Checks linearity, and that both have a gradient with respect to a common parameter."""
    part = subject.build(subject.settings[0])
    x, y = vectors(3, WIDTH), vectors(3, WIDTH, seed=1)
    close(part.project(2 * x - y), 2 * part.project(x) - part.project(y), "the projection is not linear")
    parameters = [parameter for parameter in part.parameters() if parameter.requires_grad]
    if not parameters:
        return
    embedding = torch.autograd.grad(part(torch.arange(VOCABULARY)).sum(), parameters, allow_unused=True)
    projection = torch.autograd.grad(part.project(x).sin().sum(), parameters, allow_unused=True)
    shared = [one is not None and two is not None for one, two in zip(embedding, projection, strict=True)]
    if not any(shared):
        broken("the projection shares no parameter with the embedding")
