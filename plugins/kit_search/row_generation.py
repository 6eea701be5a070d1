"""Generation of one hypothesis for each row: finished rows leave the batch.

Shapes: R rows in the batch, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from kit import GenerationState, Hypothesis

Chosen: TypeAlias = tuple[Tensor, Tensor]
"""Log-probabilities [R] and ids [R] of the next tokens."""
Step: TypeAlias = Callable[[Tensor, Tensor], Chosen]
"""Appends tokens [R] and chooses the next ones; its second argument is the original index of each row."""

MIN_FINISHED_FRACTION = 8
"""Finished rows leave once they are one in this many, because leaving copies the caches of all others."""


def generate_rows(state: GenerationState, first: Chosen, step: Step) -> list[Hypothesis]:
    """Returns the hypothesis of each row, in their original order."""
    gain_R, token_R = first
    end = state.request.special_tokens.end
    found: dict[int, Hypothesis] = {}
    number_R = torch.arange(state.rows, device=state.device)
    # For each row in the batch: its original index, its score and its limit; None if it has finished.
    unfinished: list[tuple[int, float, int] | None] = [
        (number, 0.0, limit) for number, limit in enumerate(state.limits_R.tolist())
    ]
    while True:
        chosen = zip(gain_R.tolist(), token_R.tolist(), strict=True)
        for row, (gain, token) in enumerate(chosen):
            if (one := unfinished[row]) is None:
                continue
            number, score, limit = one
            dead_end = gain == float("-inf")
            ended = token == end and not dead_end
            unfinished[row] = (number, score if dead_end else score + gain, limit)
            if dead_end or ended or limit <= state.length + 1:
                tokens = state.tokens_RT[row].tolist()
                if not (ended or dead_end):
                    tokens.append(token)
                found[number] = Hypothesis(tokens, score if dead_end else score + gain, ended)
                unfinished[row] = None
        rows = [row for row, one in enumerate(unfinished) if one is not None]
        if not rows:
            return [found[number] for number in sorted(found)]
        if len(rows) < len(unfinished) and (len(unfinished) - len(rows)) * MIN_FINISHED_FRACTION >= len(unfinished):
            kept = torch.tensor(rows, device=state.device)
            state.reorder(kept)
            number_R, token_R = number_R[kept], token_R[kept]
            unfinished = [unfinished[row] for row in rows]
        gain_R, token_R = step(token_R, number_R)
