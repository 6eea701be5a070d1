"""The likeliest token at every step."""

from __future__ import annotations

from typing import Literal

from kit import Decoder, Hypothesis, Request, Search, SearchOptions, Writing
from kit_search.row_by_row import write_rows


class GreedyOptions(SearchOptions):
    """One hypothesis a text; as `beam` of size 1 without a length penalty."""

    use: Literal["greedy"] = "greedy"


class GreedySearch(Search):
    """Takes the best token and never looks back."""

    options_type = GreedyOptions
    options: GreedyOptions
    default = True

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """One hypothesis for each text."""
        writing = Writing(decoder, request)
        found = write_rows(writing, writing.begin().best(), lambda token_R, _: writing.write_best(token_R))
        return [[hypothesis] for hypothesis in found]
