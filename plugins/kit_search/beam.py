"""The best few hypotheses side by side: beam search, batched; in groups that avoid each other's tokens, if wanted.

Diverse groups: Diverse Beam Search (Vijayakumar et al. 2016) with its Hamming term.
Shapes: A texts still being written, N rows a text, W hypotheses a group, C candidates, V choices.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, Self

import torch
from pydantic import NonNegativeFloat, PositiveInt, model_validator
from torch import Tensor

from kit import Choices, Decoder, Hypothesis, Request, Search, Writing
from kit_search.candidates import Candidates, best_candidates, spread_candidates
from kit_search.finished import Finished, Stop
from kit_search.penalties import RankedOptions


class BeamOptions(RankedOptions):
    """Beam search."""

    use: Literal["beam"] = "beam"
    size: PositiveInt = 4
    """How many hypotheses are kept at every step, in all groups together."""
    stop: Stop = "full"
    """When a text is done: at its first finished hypothesis (first); when as many have finished as the beam is wide
    (full); when besides no live one would beat the worst of them if it ended now (likely), or at all (certain)."""
    groups: PositiveInt = 1
    """Into how many groups the beam is divided; each avoids tokens that groups before it chose at the same step."""
    diversity: NonNegativeFloat = 0.5
    """What a token's log-probability is lowered by for each time an earlier group chose it at this step; it changes
    what is chosen, not the scores that are reported."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.size % self.groups:
            raise ValueError(f"{self.groups} groups do not divide a beam of {self.size}")
        if self.nbest > self.size:
            raise ValueError(f"a beam of {self.size} cannot give {self.nbest} hypotheses; take size: {self.nbest}")
        return self


class BeamSearch(Search):
    """Keeps the likeliest hypotheses of every length; what has ended is set aside and ranked by its length penalty."""

    options_type = BeamOptions
    options: BeamOptions
    several = "nbest"

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """Up to `nbest` hypotheses for each text."""
        writing = Writing(decoder, request)
        width, end = self.options.size // self.options.groups, request.signs.end
        done = [
            [Finished(self.options, width, self.options.stop) for _ in range(self.options.groups)]
            for _ in range(writing.rows)
        ]
        active, limits = list(range(writing.rows)), writing.limits_R.tolist()
        live: list[list[float]] = [[0.0] for _ in active]
        choices = writing.begin()
        while True:
            rows = len(live[0])
            live_AN = torch.tensor(live, dtype=torch.float64, device=writing.device)
            following: list[list[Candidates]] = [[] for _ in active]
            for number, found in enumerate(self._candidates(choices, live_AN, width)):
                for place, candidates in enumerate(found):
                    beam, limit = done[active[place]][number], limits[active[place]]
                    written = partial(_written, writing, place * rows)
                    candidates.note_finished(beam, written, end, cut=limit == writing.length + 1)
                    candidates.note_stuck(beam, written, live[place])
                    following[place].append(candidates.go_on(width, end))
                    beam.close_if_enough(max(following[place][-1].totals), writing.length + 1, limit)
            kept = [place for place, text in enumerate(active) if not all(beam.closed for beam in done[text])]
            if not kept:
                return [self._ranked(beams) for beams in done]
            active = [active[place] for place in kept]
            live = [[total for each in following[place] for total in each.totals] for place in kept]
            row_R = [place * rows + row for place in kept for each in following[place] for row in each.rows]
            token_R = [token for place in kept for each in following[place] for token in each.tokens]
            writing.keep(torch.tensor(row_R, device=writing.device))
            choices = writing.write(torch.tensor(token_R, device=writing.device))

    def _candidates(self, choices: Choices, live_AN: Tensor, width: int) -> list[list[Candidates]]:
        """The best continuations for each group and text, twice as many as it is wide: half of them may end."""
        if self.options.groups == 1:
            return [best_candidates(choices, live_AN, 2 * width)]
        return spread_candidates(choices, live_AN, self.options.groups, 2 * width, self.options.diversity)

    def _ranked(self, beams: list[Finished]) -> list[Hypothesis]:
        found = [hypothesis for beam in beams for hypothesis in beam.best]
        return sorted(found, key=lambda hypothesis: -hypothesis.score)[: self.options.nbest]


def _written(writing: Writing, first: int, row: int) -> list[int]:
    """What a row has written, counted from the first of its text."""
    tokens: list[int] = writing.tokens_RT[first + row].tolist()
    return tokens
