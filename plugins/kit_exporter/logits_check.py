"""Compares the logits of an exported model with those of the model itself, on every sample."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kit import EncoderDecoder, Exportable, ExportCheck, ExportSample


def compare_logits(subject: Exportable, compute: Callable[[ExportSample], Tensor], tolerance: float) -> ExportCheck:
    """Computes the largest difference over real tokens; the limit grows with the largest logit above 1."""
    difference, largest, rows = 0.0, 1.0, 0
    for sample in subject.samples:
        wanted, padding_mask = logits_of(subject, sample)
        found = compute(sample)
        if found.shape != wanted.shape:
            difference = float("inf")
            break
        gap = (found - wanted)[padding_mask].abs()
        # max() would lose NaN.
        difference = float("inf") if not bool(gap.isfinite().all()) else max(difference, float(gap.max()))
        largest = max(largest, float(wanted[padding_mask].abs().max()))
        rows += wanted.shape[0]
    what = f"scores of {rows} texts in {len(subject.samples)} batches"
    return ExportCheck(what, difference, tolerance * largest)


@torch.no_grad()
def logits_of(subject: Exportable, sample: ExportSample) -> tuple[Tensor, Tensor]:
    """Returns the logits of the model and the mask of those that count: of real tokens, or of all sequences."""
    model = subject.model
    logits: Tensor = (
        model(sample.source, sample.target)
        if isinstance(model, EncoderDecoder)
        else model(sample.source if sample.target is None else sample.target)
    )
    tokens = sample.source if sample.target is None else sample.target
    assert tokens is not None
    every = torch.ones(logits.shape[:-1], dtype=torch.bool)
    return logits, every if tokens.padding_mask is None or not model.head.per_token else tokens.padding_mask
