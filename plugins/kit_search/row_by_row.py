"""One row a hypothesis: a token is chosen in each row until every one has ended; what ended leaves the batch.

Shapes: R rows that are in the batch, V choices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from kit import Choices, Hypothesis, Writing

Choose: TypeAlias = Callable[[Choices, Tensor], tuple[Tensor, Tensor]]
"""Log-probabilities [R] and tokens [R] that are chosen, given the choices and the number of each row when all began."""

SHARE = 8
"""Rows that have ended leave once they are one in this many: leaving copies the state of all that stay."""


def write_rows(writing: Writing, choices: Choices, choose: Choose) -> list[Hypothesis]:
    """What each row writes, in the order of the rows."""
    end, device = writing.request.signs.end, writing.device
    found: dict[int, Hypothesis] = {}
    number_R = torch.arange(writing.rows, device=device)
    score_R = torch.zeros(writing.rows, dtype=torch.float64, device=device)
    open_R = torch.ones(writing.rows, dtype=torch.bool, device=device)
    while True:
        gain_R, token_R = choose(choices, number_R)
        stuck_R = gain_R == float("-inf")
        score_R = score_R + gain_R.masked_fill(stuck_R, 0.0)
        ended_R = (token_R == end) & ~stuck_R
        closing_R = open_R & (stuck_R | ended_R | (writing.limits_R <= writing.length + 1))
        if bool(closing_R.any()):
            for row in closing_R.nonzero()[:, 0].tolist():
                tokens = writing.tokens_RT[row].tolist()
                if not (ended_R[row] or stuck_R[row]):
                    tokens.append(int(token_R[row]))
                found[int(number_R[row])] = Hypothesis(tokens, float(score_R[row]), bool(ended_R[row]))
            open_R = open_R & ~closing_R
            rows = open_R.nonzero()[:, 0]
            if not rows.shape[0]:
                return [found[number] for number in sorted(found)]
            if (writing.rows - rows.shape[0]) * SHARE >= writing.rows:
                writing.keep(rows)
                number_R, score_R, open_R, token_R = number_R[rows], score_R[rows], open_R[rows], token_R[rows]
        choices = writing.write(token_R)
