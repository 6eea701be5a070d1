"""The continuations that a beam chooses from at one step, and what becomes of those that end and those that go on.

Shapes: A texts still being written, N rows a text, W hypotheses a group, C candidates, V choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kit import Choices, Writing
from kit_search.finished import Finished

NOTHING = float("-inf")


@dataclass(frozen=True)
class Candidates:
    """Continuations of the rows of each text, the best first."""

    total_AC: Tensor
    """Log-probabilities, that of the new token included; -inf where there are not enough."""
    row_AC: Tensor
    """Which row of the text each one continues."""
    token_AC: Tensor

    def note_finished(self, beams: Sequence[Finished], writing: Writing, cut: Sequence[bool], rows: int) -> None:
        """Set aside those of the first W that end; all of them, in texts that are cut here.

        rows: how many rows a text has.
        """
        width, end = beams[0].size, writing.request.signs.end
        ended_AW = self.token_AC[:, :width] == end
        ending_AW = ended_AW | torch.tensor(cut, device=ended_AW.device)[:, None]
        found = (ending_AW & (self.total_AC[:, :width] > NOTHING)).nonzero().tolist()
        if not found:
            return
        # As lists, since a tensor is read slowly one number at a time.
        totals, row_of, token, ends = (
            each.tolist() for each in (self.total_AC, self.row_AC, self.token_AC[:, :width], ended_AW)
        )
        for text, place in found:
            if beams[text].closed:
                continue
            tokens = writing.tokens_RT[text * rows + row_of[text][place]].tolist()
            if not ends[text][place]:
                tokens.append(token[text][place])
            beams[text].add(tokens, totals[text][place], ends[text][place])

    def note_stuck(self, beams: Sequence[Finished], writing: Writing, live_AN: Tensor) -> None:
        """Where nothing can follow and nothing has ended, what was written so far is all there is."""
        stuck_A = self.total_AC[:, 0] == NOTHING
        for text in stuck_A.nonzero()[:, 0].tolist():
            if beams[text].best or beams[text].closed:
                continue
            for row in (live_AN[text] > NOTHING).nonzero()[:, 0].tolist():
                tokens = writing.tokens_RT[text * live_AN.shape[1] + row].tolist()
                beams[text].add(tokens, float(live_AN[text, row]), finished=False)

    def go_on(self, width: int, end: int) -> Candidates:
        """The first W that do not end."""
        ended_AC = self.token_AC == end
        places = self.total_AC.shape[1]
        order_AC = torch.arange(places, device=ended_AC.device) + places * ended_AC
        first_AW = order_AC.topk(min(width, places), 1, largest=False).indices
        total_AW = self.total_AC.masked_fill(ended_AC, NOTHING).gather(1, first_AW)
        chosen = Candidates(total_AW, self.row_AC.gather(1, first_AW), self.token_AC.gather(1, first_AW))
        return chosen.filled(width)

    def filled(self, width: int) -> Candidates:
        """As many as the beam is wide, with some that count for nothing where a small vocabulary gives too few."""
        missing = width - self.total_AC.shape[1]
        if missing <= 0:
            return self
        texts = self.total_AC.shape[0]
        nothing = self.total_AC.new_full((texts, missing), NOTHING)
        first_AM, token_AM = (each[:, :1].expand(-1, missing) for each in (self.row_AC, self.token_AC))
        return Candidates(
            torch.cat([self.total_AC, nothing], 1),
            torch.cat([self.row_AC, first_AM], 1),
            torch.cat([self.token_AC, token_AM], 1),
        )


def best_candidates(choices: Choices, live_AN: Tensor, count: int) -> Candidates:
    """The best continuations of all rows of each text; live_AN: the log-probability of each row so far."""
    return Candidates(*choices.top_of_texts(live_AN, count))


def spread_candidates(choices: Choices, live_AN: Tensor, groups: int, count: int, diversity: float) -> list[Candidates]:
    """The best continuations for each group, which like a token less the more often earlier groups chose it."""
    texts, rows = live_AN.shape
    gain_ANV = choices.log_RV.view(texts, rows, -1)
    chosen_AV = torch.zeros_like(gain_ANV[:, 0])
    found = []
    for number in range(groups):
        # At the first step there is one row, which all groups continue.
        own = slice(None) if rows == 1 else slice(number * rows // groups, (number + 1) * rows // groups)
        live_AW, gain_AWV = live_AN[:, own], gain_ANV[:, own]
        lowered = (gain_AWV - diversity * chosen_AV[:, None]).flatten(0, 1)
        best = best_candidates(Choices(lowered), live_AW, count)
        real_AC = gain_AWV.flatten(1).gather(1, best.row_AC * gain_AWV.shape[2] + best.token_AC)
        first = 0 if rows == 1 else number * rows // groups
        total_AC = live_AW.gather(1, best.row_AC) + real_AC
        found.append(Candidates(total_AC, best.row_AC + first, best.token_AC))
        taken = (total_AC > NOTHING).to(chosen_AV.dtype)[:, : count // 2]
        chosen_AV.scatter_add_(1, best.token_AC[:, : count // 2], taken)
    return found
