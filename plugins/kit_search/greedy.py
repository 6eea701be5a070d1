"""Greedy search: the most probable token at every step."""

from __future__ import annotations

from typing import Literal

from kit import Decoder, GenerationState, Hypothesis, Request, Search, SearchOptions
from kit_search.row_generation import generate_rows


class GreedyOptions(SearchOptions):
    """One hypothesis for each sequence, as `beam` of size 1 without a length penalty."""

    use: Literal["greedy"] = "greedy"


class GreedySearch(Search):
    """Appends the most probable token; a decoder may take several steps of a single sequence at once."""

    options_type = GreedyOptions
    options: GreedyOptions
    default = True

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """Returns one hypothesis for each sequence."""
        state = GenerationState(decoder, request)
        found = generate_rows(state, state.prefill().best(), lambda token_R, _: state.step_greedy(token_R))
        return [[hypothesis] for hypothesis in found]
