"""One row a hypothesis: a token is chosen in each row until every one has ended; what ended leaves the batch.

Shapes: R rows that are in the batch, V choices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from kit import Hypothesis, Writing

Chosen: TypeAlias = tuple[Tensor, Tensor]
"""Log-probabilities [R] and tokens [R] that are chosen."""
GoOn: TypeAlias = Callable[[Tensor, Tensor], Chosen]
"""What is chosen after tokens [R] are written, given the number of each row when all began."""

SHARE = 8
"""Rows that have ended leave once they are one in this many: leaving copies the state of all that stay."""


def write_rows(writing: Writing, first: Chosen, go_on: GoOn) -> list[Hypothesis]:
    """What each row writes, in the order of the rows."""
    gain_R, token_R = first
    end = writing.request.signs.end
    found: dict[int, Hypothesis] = {}
    number_R = torch.arange(writing.rows, device=writing.device)
    # Of each row in the batch: its number, its score, the most it may write; None for those that have ended.
    going: list[tuple[int, float, int] | None] = [
        (number, 0.0, limit) for number, limit in enumerate(writing.limits_R.tolist())
    ]
    while True:
        chosen = zip(gain_R.tolist(), token_R.tolist(), strict=True)
        for row, (gain, token) in enumerate(chosen):
            if (one := going[row]) is None:
                continue
            number, score, limit = one
            stuck = gain == float("-inf")
            ended = token == end and not stuck
            going[row] = (number, score if stuck else score + gain, limit)
            if stuck or ended or limit <= writing.length + 1:
                tokens = writing.tokens_RT[row].tolist()
                if not (ended or stuck):
                    tokens.append(token)
                found[number] = Hypothesis(tokens, score if stuck else score + gain, ended)
                going[row] = None
        rows = [row for row, one in enumerate(going) if one is not None]
        if not rows:
            return [found[number] for number in sorted(found)]
        if len(rows) < len(going) and (len(going) - len(rows)) * SHARE >= len(going):
            kept = torch.tensor(rows, device=writing.device)
            writing.keep(kept)
            number_R, token_R = number_R[kept], token_R[kept]
            going = [going[row] for row in rows]
        gain_R, token_R = go_on(token_R, number_R)
