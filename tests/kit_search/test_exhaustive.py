"""Beam search with a beam as wide as the search space against exhaustive search, on random tables."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from models.table_decoder import TableDecoder, ask

from kit import KitError
from kit_constraint.length import LengthConstraint, LengthOptions
from kit_constraint.ngrams import NgramsConstraint, NgramsOptions
from kit_search.beam import BeamOptions, BeamSearch
from kit_search.exhaustive import ExhaustiveOptions, ExhaustiveSearch

LENGTH, LETTERS = 4, (0, 1, 3)


def random_table(seed: int) -> dict[tuple[int, ...], list[float]]:
    generator = torch.Generator().manual_seed(seed)
    prefixes = (prefix for length in range(LENGTH) for prefix in itertools.product(LETTERS, repeat=length))
    return {prefix: torch.rand(4, generator=generator, dtype=torch.float64).softmax(0).tolist() for prefix in prefixes}


@pytest.mark.parametrize("penalty", [("none", 1.0), ("length", 1.0), ("length", 5.0), ("gnmt", 0.6)], ids=str)
@pytest.mark.parametrize("constraint", [None, NgramsConstraint(NgramsOptions(size=1)), LengthConstraint(LengthOptions(minimum=2, maximum=3))], ids=["free", "ngrams", "length"])  # fmt: skip  # noqa: E501
def test_a_beam_that_holds_everything_is_exhaustive(penalty: tuple[Any, float], constraint: Any) -> None:
    request = ask(length=LENGTH, constraints=[] if constraint is None else [constraint])
    tables = [random_table(seed) for seed in range(3)]
    ranked = {"penalty": penalty[0], "alpha": penalty[1], "nbest": 150}
    wanted = ExhaustiveSearch(ExhaustiveOptions(**ranked)).search(TableDecoder(*tables), request)
    found = BeamSearch(BeamOptions(size=150, stop="certain", **ranked)).search(TableDecoder(*tables), request)
    assert len(found) == len(wanted) == 3
    for ours, truth in zip(found, wanted, strict=True):
        assert len(truth) >= 10
        assert [each.tokens for each in ours] == [each.tokens for each in truth]
        assert [each.finished for each in ours] == [each.finished for each in truth]
        assert [each.score for each in ours] == pytest.approx([each.score for each in truth], abs=1e-6)


def test_everything_is_found_and_nothing_twice() -> None:
    (found,) = ExhaustiveSearch(ExhaustiveOptions(nbest=1000, penalty="none")).search(
        TableDecoder(random_table(0)), ask(length=LENGTH)
    )
    cut = [each for each in found if not each.finished]
    assert len({tuple(each.tokens) for each in cut}) == len(cut) == len(LETTERS) ** LENGTH
    assert len(found) == sum(len(LETTERS) ** length for length in range(LENGTH + 1))
    assert torch.tensor([each.score for each in found]).exp().sum().item() == pytest.approx(1.0, abs=1e-6)


def test_too_many_prefixes_are_refused() -> None:
    search = ExhaustiveSearch(ExhaustiveOptions(prefixes=8))
    with pytest.raises(KitError, match=r"9 prefixes of 2 tokens .* allows 8"):
        search.search(TableDecoder(random_table(0)), ask(length=LENGTH))
