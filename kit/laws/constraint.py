"""Laws of constraints: functions of the generated tokens of a row, without state."""

from __future__ import annotations

import torch
from torch import Tensor

from kit.contracts.constraint import Constraint, History
from kit.laws.assertions import same
from kit.laws.batches import vectors
from kit.laws.law import broken, law
from kit.laws.subject import Subject

VOCABULARY = 20
END = 2
TOKENS = torch.tensor([[6, 7, 6, 7, 8], [9, 9, 9, 9, 9], [10, 11, 12, 13, 14]])


def _constraint(subject: Subject) -> Constraint:
    assert issubclass(subject.component, Constraint)
    constraint = subject.component(subject.options)
    constraint.prepare(lambda text: [6 + ord(letter) % 10 for letter in text])
    return constraint


def _objections(subject: Subject) -> str | None:
    return next(iter(_constraint(subject).objections(VOCABULARY)), None)


def _history(rows: Tensor, length: int = 5) -> History:
    room = torch.full((rows.shape[0],), 10 - length)
    return History(TOKENS[rows, :length], rows, room, END)


def _log_probs_of(rows: Tensor) -> Tensor:
    return vectors(3, VOCABULARY).log_softmax(-1)[rows].clone()


@law("constraint", "Log-probabilities keep their shape and are never NaN or +inf.",
     _objections)  # fmt: skip
def log_probs(subject: Subject) -> None:
    """Applies the constraint to histories of 0 to 5 tokens."""
    constraint, rows = _constraint(subject), torch.arange(3)
    for length in range(6):
        found = constraint.apply(_log_probs_of(rows), _history(rows, length))
        if found.shape != (3, VOCABULARY):
            broken(f"log-probabilities [3, {VOCABULARY}] become {list(found.shape)}")
        if bool(found.isnan().any()) or bool((found == float("inf")).any()):
            broken(f"after {length} tokens there are log-probabilities that are +inf or NaN")


@law("constraint", "Each row only depends on its own tokens, in any order and number of rows.",
     _objections)  # fmt: skip
def row_independence(subject: Subject) -> None:
    """Reorders, repeats and drops rows as a search does."""
    constraint = _constraint(subject)
    for length in (0, 2, 5):
        rows = torch.arange(3)
        full = constraint.apply(_log_probs_of(rows), _history(rows, length))
        for chosen in ([2, 0, 2, 1], [1], [0, 0]):
            index = torch.tensor(chosen)
            found = constraint.apply(_log_probs_of(index), _history(index, length))
            same(found.nan_to_num(neginf=-1e9), full[index].nan_to_num(neginf=-1e9), f"rows {chosen}, {length} tokens")


@law("constraint", "It has no state: repeated and out of order, it gives the same.", _objections)
def stateless(subject: Subject) -> None:
    """Repeats steps out of order; a constraint with state would follow the wrong row after a reorder."""
    constraint, rows = _constraint(subject), torch.arange(3)
    first = {length: constraint.apply(_log_probs_of(rows), _history(rows, length)) for length in range(6)}
    for length in (5, 0, 3, 3):
        again = constraint.apply(_log_probs_of(rows), _history(rows, length))
        same(again.nan_to_num(neginf=-1e9), first[length].nan_to_num(neginf=-1e9), f"{length} tokens, repeated")
