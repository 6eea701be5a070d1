"""Constraints that break one law each."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from kit import Constraint, History, Options


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"


class BrokenConstraint(Constraint):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        return scores_RV


class CutsChoices(BrokenConstraint):
    breaks = ("constraint.log_probs",)

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        return scores_RV[:, :-1]


class BlocksForAll(BrokenConstraint):
    """What one row wrote is hidden from every row."""

    breaks = ("constraint.row_independence",)

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        scores_RV[:, history.tokens.unique()] = float("-inf")
        return scores_RV


class RemembersWhatItSaw(BrokenConstraint):
    breaks = ("constraint.stateless",)

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.seen: set[int] = set()

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        self.seen |= set(history.tokens[:1].flatten().tolist())
        scores_RV[:, sorted(self.seen)] = float("-inf")
        return scores_RV
