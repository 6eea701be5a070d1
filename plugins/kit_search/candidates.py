"""Candidates of one step of beam search: the best continuations, split into finished and unfinished ones.

Candidates are lists of numbers, because reading single elements of a tensor is slow.
Shapes: A unfinished sequences, N beams of a sequence, W beams of a group, C candidates, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from kit import NextTokenLogProbs
from kit_search.hypotheses import FinishedHypotheses

NEG_INF = float("-inf")

TokensOf: TypeAlias = Callable[[int], list[int]]
"""Returns the tokens of a beam of the sequence."""


@dataclass(frozen=True)
class Candidates:
    """Continuations of the beams of one sequence, the best first."""

    scores: list[float]
    """Log-probabilities of the sequences with the new token; -inf if there are not enough candidates."""
    rows: list[int]
    """The beam that each one continues."""
    tokens: list[int]

    def finish(self, beam: FinishedHypotheses, tokens_of: TokensOf, end: int, cut: bool) -> None:
        """Adds those of the first W that end to the finished hypotheses; all of them if the sequence is cut here."""
        if beam.closed:
            return
        first = zip(self.scores[: beam.size], self.rows, self.tokens, strict=False)
        for score, row, token in first:
            if score > NEG_INF and (token == end or cut):
                tokens = tokens_of(row) if token == end else [*tokens_of(row), token]
                beam.add(tokens, score, finished=token == end)

    def finish_dead_ends(self, beam: FinishedHypotheses, tokens_of: TokensOf, beam_scores: Sequence[float]) -> None:
        """Finishes the beams as they are if no token may follow and no hypothesis has finished.

        beam_scores: the log-probability of each beam so far.
        """
        if self.scores[0] > NEG_INF or beam.best or beam.closed:
            return
        for row, score in enumerate(beam_scores):
            if score > NEG_INF:
                beam.add(tokens_of(row), score, finished=False)

    def unfinished(self, width: int, end: int) -> Candidates:
        """Returns the first W that do not end, padded with scores of -inf."""
        open_ones = [index for index, token in enumerate(self.tokens) if token != end][:width]
        missing = width - len(open_ones)
        return Candidates(
            [self.scores[index] for index in open_ones] + [NEG_INF] * missing,
            [self.rows[index] for index in open_ones] + self.rows[:1] * missing,
            [self.tokens[index] for index in open_ones] + self.tokens[:1] * missing,
        )


def best_candidates(log_probs: NextTokenLogProbs, beam_scores_AN: Tensor, count: int) -> list[Candidates]:
    """Returns the best continuations of the beams of each sequence."""
    return _per_sequence(*log_probs.top_of_beams(beam_scores_AN, count))


def diverse_candidates(
    log_probs: NextTokenLogProbs, beam_scores_AN: Tensor, groups: int, count: int, diversity: float
) -> list[list[Candidates]]:
    """Returns the best continuations of each group; tokens are penalised by how often earlier groups chose them."""
    sequences, rows = beam_scores_AN.shape
    gain_ANV = log_probs.log_RV.view(sequences, rows, -1)
    chosen_AV = torch.zeros_like(gain_ANV[:, 0])
    found = []
    for number in range(groups):
        # At the first step there is one beam, which all groups continue.
        first = 0 if rows == 1 else number * rows // groups
        own = slice(None) if rows == 1 else slice(first, (number + 1) * rows // groups)
        beam_scores_AW, gain_AWV = beam_scores_AN[:, own].contiguous(), gain_ANV[:, own]
        penalised = (gain_AWV - diversity * chosen_AV[:, None]).flatten(0, 1)
        _, row_AC, token_AC = NextTokenLogProbs(penalised).top_of_beams(beam_scores_AW, count)
        gain_AC = gain_AWV.flatten(1).gather(1, row_AC * gain_AWV.shape[2] + token_AC)
        score_AC = beam_scores_AW.gather(1, row_AC) + gain_AC
        found.append(_per_sequence(score_AC, row_AC + first, token_AC))
        taken = (score_AC > NEG_INF).to(chosen_AV.dtype)[:, : count // 2]
        chosen_AV.scatter_add_(1, token_AC[:, : count // 2], taken)
    return found


def _per_sequence(score_AC: Tensor, row_AC: Tensor, token_AC: Tensor) -> list[Candidates]:
    return [Candidates(*each) for each in zip(score_AC.tolist(), row_AC.tolist(), token_AC.tolist(), strict=True)]
