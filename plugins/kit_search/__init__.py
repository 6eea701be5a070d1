"""Search: greedy, beam, sampling, contrastive, speculative and exhaustive decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """Returns the searches, imported on demand."""
    from kit_search.beam import BeamSearch
    from kit_search.contrastive import ContrastiveSearch
    from kit_search.exhaustive import ExhaustiveSearch
    from kit_search.greedy import GreedySearch
    from kit_search.sample import SampleSearch
    from kit_search.speculative import SpeculativeSearch

    return [BeamSearch, ContrastiveSearch, ExhaustiveSearch, GreedySearch, SampleSearch, SpeculativeSearch]
