"""The continuations that a beam chooses from at one step, and what becomes of those that end and those that go on.

Numbers of a few candidates are lists: a tensor is read slowly one number at a time.
Shapes: A texts still being written, N rows a text, W hypotheses a group, C candidates, V choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from kit import Choices
from kit_search.finished import Finished

NOTHING = float("-inf")

Written: TypeAlias = Callable[[int], list[int]]
"""The tokens that a row of the text has written so far."""


@dataclass(frozen=True)
class Candidates:
    """Continuations of the rows of one text, the best first."""

    totals: list[float]
    """Log-probabilities, that of the new token included; -inf where there are not enough."""
    rows: list[int]
    """Which row of the text each one continues."""
    tokens: list[int]

    def note_finished(self, beam: Finished, written: Written, end: int, cut: bool) -> None:
        """Set aside those of the first W that end; all of them, if the text is cut here."""
        if beam.closed:
            return
        first = zip(self.totals[: beam.size], self.rows, self.tokens, strict=False)
        for total, row, token in first:
            if total > NOTHING and (token == end or cut):
                tokens = written(row) if token == end else [*written(row), token]
                beam.add(tokens, total, finished=token == end)

    def note_stuck(self, beam: Finished, written: Written, live: Sequence[float]) -> None:
        """Where nothing can follow and nothing has ended, what was written so far is all there is.

        live: the log-probability of each row so far.
        """
        if self.totals[0] > NOTHING or beam.best or beam.closed:
            return
        for row, total in enumerate(live):
            if total > NOTHING:
                beam.add(written(row), total, finished=False)

    def go_on(self, width: int, end: int) -> Candidates:
        """The first W that do not end; where there are too few, some that count for nothing."""
        open_ones = [place for place, token in enumerate(self.tokens) if token != end][:width]
        missing = width - len(open_ones)
        return Candidates(
            [self.totals[place] for place in open_ones] + [NOTHING] * missing,
            [self.rows[place] for place in open_ones] + self.rows[:1] * missing,
            [self.tokens[place] for place in open_ones] + self.tokens[:1] * missing,
        )


def best_candidates(choices: Choices, live_AN: Tensor, count: int) -> list[Candidates]:
    """The best continuations of all rows of each text; live_AN: the log-probability of each row so far."""
    return _of_texts(*choices.top_of_texts(live_AN, count))


def spread_candidates(
    choices: Choices, live_AN: Tensor, groups: int, count: int, diversity: float
) -> list[list[Candidates]]:
    """The best continuations for each group, which like a token less the more often earlier groups chose it."""
    texts, rows = live_AN.shape
    gain_ANV = choices.log_RV.view(texts, rows, -1)
    chosen_AV = torch.zeros_like(gain_ANV[:, 0])
    found = []
    for number in range(groups):
        # At the first step there is one row, which all groups continue.
        first = 0 if rows == 1 else number * rows // groups
        own = slice(None) if rows == 1 else slice(first, (number + 1) * rows // groups)
        live_AW, gain_AWV = live_AN[:, own].contiguous(), gain_ANV[:, own]
        lowered = (gain_AWV - diversity * chosen_AV[:, None]).flatten(0, 1)
        _, row_AC, token_AC = Choices(lowered).top_of_texts(live_AW, count)
        real_AC = gain_AWV.flatten(1).gather(1, row_AC * gain_AWV.shape[2] + token_AC)
        total_AC = live_AW.gather(1, row_AC) + real_AC
        found.append(_of_texts(total_AC, row_AC + first, token_AC))
        taken = (total_AC > NOTHING).to(chosen_AV.dtype)[:, : count // 2]
        chosen_AV.scatter_add_(1, token_AC[:, : count // 2], taken)
    return found


def _of_texts(total_AC: Tensor, row_AC: Tensor, token_AC: Tensor) -> list[Candidates]:
    return [Candidates(*each) for each in zip(total_AC.tolist(), row_AC.tolist(), token_AC.tolist(), strict=True)]
