"""Laws of objectives, on a small model that scores each token by the one it reads."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from kit.component import Dims
from kit.contracts.objective import Loss, Objective, Serves
from kit.contracts.tokenizer import Special
from kit.data.batch import Batch
from kit.laws.batches import valid_of
from kit.laws.comparing import close, finite
from kit.laws.law import broken, law
from kit.laws.subject import Subject
from kit.tokens import Tokens

CHOICES = 12
LENGTHS = (7, 5, 7, 4)


class _Reader(nn.Module):
    """A table of what follows what; a text is scored by the mean over its tokens."""

    def __init__(self, per_token: bool) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(CHOICES, CHOICES, generator=generator, dtype=torch.float64))
        self.per_token = per_token
        self.head = SimpleNamespace(dims=Dims(CHOICES, vocabulary=CHOICES))

    def forward(self, source: Any = None, target: Any = None, packed: bool = False, watcher: Any = None) -> Tensor:
        """Scores as a model gives them."""
        tokens = source if target is None else target
        scores_BLV = self.table[tokens.ids]
        valid = torch.ones_like(tokens.ids, dtype=torch.bool) if tokens.valid is None else tokens.valid
        if not self.per_token:
            return (scores_BLV * valid[:, :, None]).sum(1) / valid.sum(1, keepdim=True).clamp(min=1)
        return scores_BLV[valid] if packed and tokens.valid is not None else scores_BLV


def _tokens(rows: list[int], seed: int) -> Tokens:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(len(Special), CHOICES, (len(LENGTHS), max(LENGTHS)), generator=generator)[rows]
    valid = valid_of([LENGTHS[row] for row in rows], longest=max(LENGTHS))
    return Tokens(ids if valid is None else ids.masked_fill(~valid, int(Special.PADDING)), valid, right_padded=True)


def _batch(serves: Serves, rows: list[int]) -> Batch:
    source = _tokens(rows, 1)
    if serves.form in ("windows", "blocks"):
        source = Tokens(_tokens(rows, 2).ids.clamp(min=len(Special)), None, right_padded=True)
    if serves.form == "prefixed":
        given = torch.arange(max(LENGTHS)).expand(len(rows), -1) < 3
        source = Tokens(source.ids, source.valid, {"prefix": given}, right_padded=True)
    target = _tokens(rows, 3) if serves.form == "pairs" else None
    labels = torch.tensor([row % 3 for row in rows]) if serves.task == "labelled" else None
    return Batch(source, target, labels, step=5, indices=tuple(10 + row for row in rows))


def _cases(subject: Subject) -> Iterator[tuple[Objective, nn.Module, Serves]]:
    component = subject.component
    assert issubclass(component, Objective)
    for serves in component.serves:
        yield component(subject.options, 3), _Reader(component.per_token), serves


def _loss(objective: Objective, model: Any, serves: Serves, rows: list[int]) -> Loss:
    return objective.loss(model, _batch(serves, rows))


@law("objective", "The loss of a batch is finite, counts at least one prediction, and trains the model.")
def trains(subject: Subject) -> None:
    """For every family and task that it says it serves."""
    for objective, model, serves in _cases(subject):
        what = f"{serves.family} on {serves.task}"
        found = _loss(objective, model, serves, [0, 1, 2, 3])
        finite(found.total.detach(), what)
        if found.count < 1:
            broken(f"{what}: it counts {found.count} predictions")
        (gradient,) = torch.autograd.grad(found.total, list(model.parameters()), allow_unused=True)
        if gradient is None or not bool(gradient.any()):
            broken(f"{what}: the model gets no gradient")
        finite(gradient, f"{what}: the gradient")


@law("objective", "A batch costs what its shares cost together: how it is shared out among processes changes nothing.")
def shares(subject: Subject) -> None:
    """What is chosen at random depends on the seed, the step and the row, never on the rows beside it."""
    for objective, model, serves in _cases(subject):
        what = f"{serves.family} on {serves.task}"
        whole = _loss(objective, model, serves, [0, 1, 2, 3])
        parts = [_loss(objective, model, serves, rows) for rows in ([0], [1, 2], [3])]
        if sum(part.count for part in parts) != whole.count:
            broken(f"{what}: it counts {whole.count} predictions, in shares {sum(part.count for part in parts)}")
        close(sum((part.total for part in parts), torch.zeros(())), whole.total, f"{what}: the loss in shares")
        close(sum((part.nats for part in parts), torch.zeros(())), whole.nats, f"{what}: the surprise in shares")
