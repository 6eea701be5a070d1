"""Batched beam search, optionally in diverse groups.

Groups: Diverse Beam Search (Vijayakumar et al. 2016) with its Hamming term.
Shapes: A unfinished sequences, N beams of a sequence, W beams of a group, C candidates, V vocabulary.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, Self

import torch
from pydantic import NonNegativeFloat, PositiveInt, model_validator
from torch import Tensor

from kit import Decoder, GenerationState, Hypothesis, NextTokenLogProbs, Request, Search
from kit_search.candidates import Candidates, best_candidates, diverse_candidates
from kit_search.hypotheses import FinishedHypotheses, RankedOptions, Stop


class BeamOptions(RankedOptions):
    """Beam search."""

    use: Literal["beam"] = "beam"
    size: PositiveInt = 4
    """The beam size: how many hypotheses are kept at every step, in all groups together."""
    stop: Stop = "full"
    """When a sequence is done: at its first finished hypothesis (first); when as many have finished as the beam is wide
    (full); when no unfinished one would beat the worst of them either, if it ended now (likely) or ever (certain)."""
    groups: PositiveInt = 1
    """The number of groups of the beam; each avoids tokens that earlier groups chose at the same step."""
    diversity: NonNegativeFloat = 0.5
    """The Hamming penalty of a token for each time an earlier group chose it at this step; it changes which tokens are
    chosen, not the scores that are reported."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.size % self.groups:
            raise ValueError(f"{self.groups} groups do not divide a beam of {self.size}")
        if self.nbest > self.size:
            raise ValueError(f"a beam of {self.size} cannot give {self.nbest} hypotheses; take size: {self.nbest}")
        return self


class BeamSearch(Search):
    """Keeps the most probable hypotheses of every length; finished ones are ranked with the length penalty."""

    options_type = BeamOptions
    options: BeamOptions
    several = "nbest"

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """Returns up to `nbest` hypotheses for each sequence."""
        state = GenerationState(decoder, request)
        width, end = self.options.size // self.options.groups, request.special_tokens.end
        done = [
            [FinishedHypotheses(self.options, width, self.options.stop) for _ in range(self.options.groups)]
            for _ in range(state.rows)
        ]
        active, limits = list(range(state.rows)), state.limits_R.tolist()
        beam_scores: list[list[float]] = [[0.0] for _ in active]
        log_probs = state.prefill()
        while True:
            rows = len(beam_scores[0])
            beam_scores_AN = torch.tensor(beam_scores, dtype=torch.float64, device=state.device)
            following: list[list[Candidates]] = [[] for _ in active]
            for number, found in enumerate(self._candidates(log_probs, beam_scores_AN, width)):
                for index, candidates in enumerate(found):
                    beam, limit = done[active[index]][number], limits[active[index]]
                    tokens_of = partial(_tokens_of, state, index * rows)
                    candidates.finish(beam, tokens_of, end, cut=limit == state.length + 1)
                    candidates.finish_dead_ends(beam, tokens_of, beam_scores[index])
                    following[index].append(candidates.unfinished(width, end))
                    beam.close_if_enough(max(following[index][-1].scores), state.length + 1, limit)
            kept = [index for index, sequence in enumerate(active) if not all(beam.closed for beam in done[sequence])]
            if not kept:
                return [self._ranked(beams) for beams in done]
            active = [active[index] for index in kept]
            beam_scores = [[score for each in following[index] for score in each.scores] for index in kept]
            row_R = [index * rows + row for index in kept for each in following[index] for row in each.rows]
            token_R = [token for index in kept for each in following[index] for token in each.tokens]
            state.reorder(torch.tensor(row_R, device=state.device))
            log_probs = state.step(torch.tensor(token_R, device=state.device))

    def _candidates(self, log_probs: NextTokenLogProbs, beam_scores_AN: Tensor, width: int) -> list[list[Candidates]]:
        """Returns the best continuations of each group and sequence, 2 W of them because half may end."""
        if self.options.groups == 1:
            return [best_candidates(log_probs, beam_scores_AN, 2 * width)]
        return diverse_candidates(log_probs, beam_scores_AN, self.options.groups, 2 * width, self.options.diversity)

    def _ranked(self, beams: list[FinishedHypotheses]) -> list[Hypothesis]:
        found = [hypothesis for beam in beams for hypothesis in beam.best]
        return sorted(found, key=lambda hypothesis: -hypothesis.score)[: self.options.nbest]


def _tokens_of(state: GenerationState, first: int, row: int) -> list[int]:
    """Returns the tokens of a beam, counted from the first beam of its sequence."""
    tokens: list[int] = state.tokens_RT[first + row].tolist()
    return tokens
