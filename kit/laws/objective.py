"""Laws of objectives, tested on a bigram model."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from kit.contracts.objective import Loss, Objective, Supports
from kit.contracts.tokenizer import Special
from kit.laws.assertions import close, finite
from kit.laws.batches import padding_mask_of
from kit.laws.law import broken, law
from kit.laws.subject import Subject
from kit.plugin.component import Dims
from kit.sequence.batch import Batch
from kit.sequence.batch_layout import TokenBatch

VOCABULARY = 12
LENGTHS = (7, 5, 7, 4)


class _Bigram(nn.Module):
    """A bigram model: a table of next-token logits, averaged over tokens for the logits of a sequence."""

    overwritable_logits = True

    def __init__(self, per_token: bool) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(VOCABULARY, VOCABULARY, generator=generator, dtype=torch.float64))
        self.per_token = per_token
        self.head = SimpleNamespace(dims=Dims(VOCABULARY, vocabulary=VOCABULARY))

    def forward(self, source: Any = None, target: Any = None, packed: bool = False, observer: Any = None) -> Tensor:
        """Returns logits [B, L, V], packed [N, V], or [B, V] of sequences."""
        tokens = source if target is None else target
        logits_BLV = self.table[tokens.ids]
        padding_mask = (
            torch.ones_like(tokens.ids, dtype=torch.bool) if tokens.padding_mask is None else tokens.padding_mask
        )
        if not self.per_token:
            return (logits_BLV * padding_mask[:, :, None]).sum(1) / padding_mask.sum(1, keepdim=True).clamp(min=1)
        return logits_BLV[padding_mask] if packed and tokens.padding_mask is not None else logits_BLV


def _tokens(rows: list[int], seed: int) -> TokenBatch:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(len(Special), VOCABULARY, (len(LENGTHS), max(LENGTHS)), generator=generator)[rows]
    padding_mask = padding_mask_of([LENGTHS[row] for row in rows], longest=max(LENGTHS))
    return TokenBatch(
        ids if padding_mask is None else ids.masked_fill(~padding_mask, int(Special.PADDING)),
        padding_mask,
        right_padded=True,
    )


def _batch(supports: Supports, rows: list[int]) -> Batch:
    source = _tokens(rows, 1)
    if supports.row_format in ("lm_window", "mlm_block"):
        source = TokenBatch(_tokens(rows, 2).ids.clamp(min=len(Special)), None, right_padded=True)
    if supports.row_format == "prefix_lm":
        is_prefix = torch.arange(max(LENGTHS)).expand(len(rows), -1) < 3
        source = TokenBatch(source.ids, source.padding_mask, {"prefix": is_prefix}, right_padded=True)
    target = _tokens(rows, 3) if supports.row_format == "seq2seq" else None
    labels = torch.tensor([row % 3 for row in rows]) if supports.task == "labelled" else None
    return Batch(source, target, labels, step=5, indices=tuple(10 + row for row in rows))


def _cases(subject: Subject) -> Iterator[tuple[Objective, nn.Module, Supports]]:
    component = subject.component
    assert issubclass(component, Objective)
    for supports in component.supports:
        yield component(subject.options, 3), _Bigram(component.per_token), supports


def _loss(objective: Objective, model: Any, supports: Supports, rows: list[int]) -> Loss:
    return objective.loss(model, _batch(supports, rows))


@law("objective", "The loss of a batch is finite, counts at least one prediction, and gives the model a gradient.")
def gradients(subject: Subject) -> None:
    """Computes the loss and its gradient for every family and task that the objective supports."""
    for objective, model, supports in _cases(subject):
        what = f"{supports.family} on {supports.task}"
        found = _loss(objective, model, supports, [0, 1, 2, 3])
        finite(found.total.detach(), what)
        if found.num_predictions < 1:
            broken(f"{what}: it counts {found.num_predictions} predictions")
        (gradient,) = torch.autograd.grad(found.total, list(model.parameters()), allow_unused=True)
        if gradient is None or not bool(gradient.any()):
            broken(f"{what}: the model gets no gradient")
        finite(gradient, f"{what}: the gradient")


@law(
    "objective",
    "The loss of a batch is the sum of the losses of its parts, so that ranks may share a batch in any way.",
)
def additivity(subject: Subject) -> None:
    """Compares with the summed losses of parts; random choices may depend on the seed, step and row only."""
    for objective, model, supports in _cases(subject):
        what = f"{supports.family} on {supports.task}"
        full = _loss(objective, model, supports, [0, 1, 2, 3])
        parts = [_loss(objective, model, supports, rows) for rows in ([0], [1, 2], [3])]
        if sum(part.num_predictions for part in parts) != full.num_predictions:
            counted = sum(part.num_predictions for part in parts)
            broken(f"{what}: it counts {full.num_predictions} predictions, in parts {counted}")
        close(sum((part.total for part in parts), torch.zeros(())), full.total, f"{what}: the summed loss of the parts")
        close(
            sum((part.nll_sum for part in parts), torch.zeros(())),
            full.nll_sum,
            f"{what}: the summed negative log-likelihood of the parts",
        )
