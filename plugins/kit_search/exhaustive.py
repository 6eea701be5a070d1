"""Exhaustive search over all sequences up to the length limit, for tiny vocabularies and for testing other searches.

Shapes: R prefixes, V vocabulary.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveInt

from kit import Decoder, GenerationState, Hypothesis, KitError, NextTokenLogProbs, Request, Search
from kit_search.hypotheses import RankedOptions


class ExhaustiveOptions(RankedOptions):
    """Options of exhaustive search."""

    use: Literal["exhaustive"] = "exhaustive"
    prefixes: PositiveInt = 100_000
    """The most prefixes that are kept before the search is refused."""


class ExhaustiveSearch(Search):
    """Continues every prefix with every token."""

    options_type = ExhaustiveOptions
    options: ExhaustiveOptions
    several = "nbest"

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """Returns the best `nbest` of all sequences, for each prompt."""
        state, end = GenerationState(decoder, request), request.special_tokens.end
        found: list[list[Hypothesis]] = [[] for _ in range(state.rows)]
        score_R = torch.zeros(state.rows, dtype=torch.float64, device=state.device)
        log_probs = state.prefill()
        while state.rows:
            total_RV = score_R[:, None] + log_probs.log_RV
            self._finish_dead_ends(found, state, log_probs, score_R)
            cut_R = state.limits_R == state.length + 1
            going_RV = total_RV > float("-inf")
            ending_RV = going_RV & cut_R[:, None]
            ending_RV[:, end] = going_RV[:, end]
            for row, token in ending_RV.nonzero().tolist():
                tokens = state.tokens_RT[row].tolist() + ([] if token == end else [token])
                score = self.options.score(float(total_RV[row, token]), state.length + 1)
                found[int(state.texts_R[row])].append(Hypothesis(tokens, score, token == end))
            rows, token_R = (going_RV & ~ending_RV).nonzero(as_tuple=True)
            if not rows.shape[0]:
                break
            if rows.shape[0] > self.options.prefixes:
                raise KitError(
                    f"exhaustive search has {rows.shape[0]} prefixes of {state.length + 1} tokens to go on from, and "
                    f"`prefixes` allows {self.options.prefixes}; take a smaller length or vocabulary, or beam search"
                )
            score_R = total_RV[rows, token_R]
            state.reorder(rows)
            log_probs = state.step(token_R)
        return [sorted(each, key=lambda hypothesis: -hypothesis.score)[: self.options.nbest] for each in found]

    def _finish_dead_ends(
        self, found: list[list[Hypothesis]], state: GenerationState, log_probs: NextTokenLogProbs, score_R: torch.Tensor
    ) -> None:
        """Finishes the prefixes of a prompt as they are if no token may follow and no hypothesis has finished."""
        dead_end_R = log_probs.best()[0] == float("-inf")
        for text in {int(text) for text in state.texts_R[dead_end_R]}:
            own_R = state.texts_R == text
            if found[text] or not bool(dead_end_R[own_R].all()):
                continue
            for row in own_R.nonzero()[:, 0].tolist():
                score = self.options.score(float(score_R[row]), max(1, state.length))
                found[text].append(Hypothesis(state.tokens_RT[row].tolist(), score, finished=False))
