"""Every text there is, up to the most tokens: the truth that other searches are measured by, for tiny vocabularies.

Shapes: R prefixes that are being written, V choices.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveInt

from kit import Choices, Decoder, Hypothesis, KitError, Request, Search, Writing
from kit_search.penalties import RankedOptions


class ExhaustiveOptions(RankedOptions):
    """Looks at everything."""

    use: Literal["exhaustive"] = "exhaustive"
    prefixes: PositiveInt = 100_000
    """How many prefixes may be written at once before the search is refused."""


class ExhaustiveSearch(Search):
    """Continues every prefix with every token."""

    options_type = ExhaustiveOptions
    options: ExhaustiveOptions
    several = "nbest"

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """The best `nbest` of all texts, for each text of the request."""
        writing, end = Writing(decoder, request), request.signs.end
        found: list[list[Hypothesis]] = [[] for _ in range(writing.rows)]
        score_R = torch.zeros(writing.rows, dtype=torch.float64, device=writing.device)
        choices = writing.begin()
        while writing.rows:
            total_RV = score_R[:, None] + choices.log_RV
            self._note_stuck(found, writing, choices, score_R)
            cut_R = writing.limits_R == writing.length + 1
            going_RV = total_RV > float("-inf")
            ending_RV = going_RV & cut_R[:, None]
            ending_RV[:, end] = going_RV[:, end]
            for row, token in ending_RV.nonzero().tolist():
                tokens = writing.tokens_RT[row].tolist() + ([] if token == end else [token])
                score = self.options.ranked(float(total_RV[row, token]), writing.length + 1)
                found[int(writing.texts_R[row])].append(Hypothesis(tokens, score, token == end))
            rows, token_R = (going_RV & ~ending_RV).nonzero(as_tuple=True)
            if not rows.shape[0]:
                break
            if rows.shape[0] > self.options.prefixes:
                raise KitError(
                    f"exhaustive search has {rows.shape[0]} prefixes of {writing.length + 1} tokens to go on from, and "
                    f"`prefixes` allows {self.options.prefixes}; take a smaller length or vocabulary, or beam search"
                )
            score_R = total_RV[rows, token_R]
            writing.keep(rows)
            choices = writing.write(token_R)
        return [sorted(each, key=lambda hypothesis: -hypothesis.score)[: self.options.nbest] for each in found]

    def _note_stuck(
        self, found: list[list[Hypothesis]], writing: Writing, choices: Choices, score_R: torch.Tensor
    ) -> None:
        """Where nothing can follow and nothing has ended, what was written so far is all there is."""
        stuck_R = choices.best()[0] == float("-inf")
        for text in {int(text) for text in writing.texts_R[stuck_R]}:
            own_R = writing.texts_R == text
            if found[text] or not bool(stuck_R[own_R].all()):
                continue
            for row in own_R.nonzero()[:, 0].tolist():
                score = self.options.ranked(float(score_R[row]), max(1, writing.length))
                found[text].append(Hypothesis(writing.tokens_RT[row].tolist(), score, finished=False))
