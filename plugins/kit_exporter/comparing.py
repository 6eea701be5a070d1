"""Compares the scores of an exported model with those of the model itself, on every sample."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kit import EncoderDecoder, Exportable, ExportCheck, ExportSample


def compare_scores(subject: Exportable, score: Callable[[ExportSample], Tensor], tolerance: float) -> ExportCheck:
    """The largest difference of any score of a real token, or of a text; the limit grows with the largest score."""
    difference, largest, rows = 0.0, 1.0, 0
    for sample in subject.samples:
        wanted, valid = scores_of(subject, sample)
        found = score(sample)
        if found.shape != wanted.shape:
            difference = float("inf")
            break
        apart = (found - wanted)[valid].abs()
        # A maximum would lose what is not a number.
        difference = float("inf") if not bool(apart.isfinite().all()) else max(difference, float(apart.max()))
        largest = max(largest, float(wanted[valid].abs().max()))
        rows += wanted.shape[0]
    what = f"scores of {rows} texts in {len(subject.samples)} batches"
    return ExportCheck(what, difference, tolerance * largest)


@torch.no_grad()
def scores_of(subject: Exportable, sample: ExportSample) -> tuple[Tensor, Tensor]:
    """What the model itself gives, and which of it counts: real tokens, or all texts."""
    model = subject.model
    scores: Tensor = (
        model(sample.source, sample.target)
        if isinstance(model, EncoderDecoder)
        else model(sample.source if sample.target is None else sample.target)
    )
    tokens = sample.source if sample.target is None else sample.target
    assert tokens is not None
    every = torch.ones(scores.shape[:-1], dtype=torch.bool)
    return scores, every if tokens.valid is None or not model.head.per_token else tokens.valid
