"""Laws of constraints: a function of what a row has written, which keeps nothing and concerns no other row."""

from __future__ import annotations

import torch
from torch import Tensor

from kit.contracts.constraint import Constraint, History
from kit.laws.batches import vectors
from kit.laws.comparing import same
from kit.laws.law import broken, law
from kit.laws.subject import Subject

CHOICES = 20
END = 2
WRITTEN = torch.tensor([[6, 7, 6, 7, 8], [9, 9, 9, 9, 9], [10, 11, 12, 13, 14]])


def _made(subject: Subject) -> Constraint:
    assert issubclass(subject.component, Constraint)
    constraint = subject.component(subject.options)
    constraint.prepare(lambda text: [6 + ord(letter) % 10 for letter in text])
    return constraint


def _objections(subject: Subject) -> str | None:
    return next(iter(_made(subject).objections(CHOICES)), None)


def _history(rows: Tensor, length: int = 5) -> History:
    room = torch.full((rows.shape[0],), 10 - length)
    return History(WRITTEN[rows, :length], rows, room, END)


def _scores(rows: Tensor) -> Tensor:
    return vectors(3, CHOICES).log_softmax(-1)[rows].clone()


@law("constraint", "Scores keep their shape, nothing becomes likelier than certain, and none is not a number.",
     _objections)  # fmt: skip
def scores(subject: Subject) -> None:
    """At the first step and later ones."""
    constraint, rows = _made(subject), torch.arange(3)
    for length in range(6):
        found = constraint.apply(_scores(rows), _history(rows, length))
        if found.shape != (3, CHOICES):
            broken(f"scores [3, {CHOICES}] become {list(found.shape)}")
        if bool(found.isnan().any()) or bool((found == float("inf")).any()):
            broken(f"after {length} tokens there are scores that are infinite or not numbers")


@law("constraint", "Each row is restricted by what it has written itself, in any order and number of rows.",
     _objections)  # fmt: skip
def row_by_row(subject: Subject) -> None:
    """As a search reorders, repeats and drops rows."""
    constraint = _made(subject)
    for length in (0, 2, 5):
        rows = torch.arange(3)
        whole = constraint.apply(_scores(rows), _history(rows, length))
        for chosen in ([2, 0, 2, 1], [1], [0, 0]):
            index = torch.tensor(chosen)
            found = constraint.apply(_scores(index), _history(index, length))
            same(found.nan_to_num(neginf=-1e9), whole[index].nan_to_num(neginf=-1e9), f"rows {chosen}, {length} tokens")


@law("constraint", "It keeps nothing between steps: asked again, and out of order, it says the same.", _objections)
def keeps_nothing(subject: Subject) -> None:
    """A constraint that remembers would follow the wrong row after a reorder."""
    constraint, rows = _made(subject), torch.arange(3)
    first = {length: constraint.apply(_scores(rows), _history(rows, length)) for length in range(6)}
    for length in (5, 0, 3, 3):
        again = constraint.apply(_scores(rows), _history(rows, length))
        same(again.nan_to_num(neginf=-1e9), first[length].nan_to_num(neginf=-1e9), f"{length} tokens, asked again")
