"""Log-probabilities of the next token, and top-k over them.

Shapes: R rows, V vocabulary, K best of it; A sequences of W beams each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kit.kernels.decoding import beam_topk, topk, topk_of_beams
from kit.sequence.batch_layout import cached_property


@dataclass(frozen=True)
class NextTokenLogProbs:
    """Log-probabilities [R, V] of the next token; -inf for tokens that are suppressed."""

    log_RV: Tensor

    def best(self) -> tuple[Tensor, Tensor]:
        """Returns the log-probability [R] and the id [R] of the most probable token of each row."""
        log_R, token_R = self.log_RV.max(1)
        return log_R, token_R

    def top(self, count: int) -> tuple[Tensor, Tensor]:
        """Returns log-probabilities [R, K] and ids [R, K] of the most probable tokens of each row, best first."""
        return topk(self.log_RV, min(count, self.log_RV.shape[1]))

    def top_of_beams(self, beam_scores_AW: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the best continuations of the beams of each sequence, best first: scores, beams and ids, [A, K] each.

        beam_scores_AW: the log-probability of each beam so far.
        """
        return topk_of_beams(self.log_RV, beam_scores_AW, count)

    def of(self, token_R: Tensor) -> Tensor:
        """Returns the log-probability [R] of one token of each row."""
        return self.log_RV.gather(1, token_R[:, None])[:, 0]

    def reorder(self, rows: Tensor) -> NextTokenLogProbs:
        """Selects rows, in a new order."""
        return NextTokenLogProbs(self.log_RV[rows])


class FusedLogProbs(NextTokenLogProbs):
    """Log-probabilities computed from logits by a fused kernel; those of the whole vocabulary only on demand."""

    def __init__(self, logits_RV: Tensor, suppressed_ids: Tensor) -> None:
        self.__dict__.update(logits_RV=logits_RV, suppressed_ids=suppressed_ids)

    logits_RV: Tensor
    suppressed_ids: Tensor
    """Ids of tokens that are never chosen."""

    @cached_property
    def log_RV(self) -> Tensor:
        """Log-probabilities [R, V] of the whole vocabulary."""
        return self.logits_RV.log_softmax(1).index_fill_(1, self.suppressed_ids, float("-inf"))

    def best(self) -> tuple[Tensor, Tensor]:
        """Returns the log-probability and the id of the most probable token of each row."""
        zero_R1 = torch.zeros(self.logits_RV.shape[0], 1, dtype=torch.float64)
        log_R1, _, token_R1 = beam_topk(self.logits_RV, self.suppressed_ids, zero_R1, 1)
        return log_R1[:, 0], token_R1[:, 0]

    def top_of_beams(self, beam_scores_AW: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the best continuations of the beams of each sequence, from one pass over the logits."""
        return beam_topk(self.logits_RV, self.suppressed_ids, beam_scores_AW, count)
