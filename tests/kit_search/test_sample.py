"""Sampling: filters by hand, frequencies, seeds, and draws that do not depend on the batch."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from models.table_decoder import LETTERS, TableDecoder, ask

from kit import KitError
from kit_search.sample import SampleOptions, SampleSearch, draw, keep_min_p, keep_top_k, keep_top_p, keep_typical

P = torch.tensor([[0.1, 0.4, 0.05, 0.3, 0.15]], dtype=torch.float64)


def kept(filtered: torch.Tensor) -> list[int]:
    return (filtered[0] > -math.inf).nonzero()[:, 0].tolist()


@pytest.mark.parametrize(
    ("filtered", "wanted"),
    [
        (keep_top_k(P.log(), 2), [1, 3]),
        (keep_top_k(P.log(), 99), [0, 1, 2, 3, 4]),
        (keep_top_p(P.log(), 0.39), [1]),
        (keep_top_p(P.log(), 0.41), [1, 3]),
        (keep_top_p(P.log(), 0.84), [1, 3, 4]),
        (keep_top_p(P.log(), 1.0), [0, 1, 2, 3, 4]),
        (keep_min_p(P.log(), 0.3), [1, 3, 4]),
        (keep_min_p(P.log(), 1.0), [1]),
        # The expected surprise is 1.39; those of the tokens are 2.30, 0.92, 3.00, 1.20, 1.90.
        (keep_typical(P.log(), 0.25), [3]),
        (keep_typical(P.log(), 0.31), [1, 3]),
        (keep_typical(P.log(), 0.75), [1, 3, 4]),
    ],
)
def test_filters(filtered: torch.Tensor, wanted: list[int]) -> None:
    assert kept(filtered) == wanted
    assert torch.equal(filtered[0, wanted], P.log()[0, wanted])


def test_a_draw_is_where_the_summed_probability_passes_the_number() -> None:
    numbers = torch.tensor([0.0, 0.0999, 0.1001, 0.4999, 0.56, 0.999999999999], dtype=torch.float64)
    assert draw(P.log().expand(6, -1), numbers).tolist() == [0, 0, 1, 1, 3, 4]
    hidden = torch.tensor([[-math.inf, 0.0, -math.inf]], dtype=torch.float64)
    for number in (0.0, 1.0 - 2**-53, 1.0):
        assert draw(hidden, torch.tensor([number], dtype=torch.float64)).tolist() == [1]


def sampled(count: int = 4000, **options: Any) -> Counter[str]:
    search = SampleSearch(SampleOptions(samples=count, **options))
    found = search.search(TableDecoder(LETTERS), ask())[0]
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)
    return Counter("".join("AB"[token] for token in each.tokens) for each in found)


def test_texts_come_as_often_as_they_are_likely() -> None:
    counts = sampled()
    truth = {"B": 0.36, "A": 0.30, "AA": 0.108, "AAB": 0.072, "AB": 0.06, "ABA": 0.06, "BA": 0.04}
    distance = sum((counts[text] - 4000 * p) ** 2 / (4000 * p) for text, p in truth.items())
    assert set(counts) == set(truth)
    assert distance < 22.5, "chi-square with 6 degrees of freedom: one seed in a thousand is above this"


def test_top_p_on_a_table() -> None:
    """At .45 only A and then only the end are left; at .7 the first step is free, and B never follows A."""
    assert set(sampled(200, top_p=0.45)) == {"A"}
    counts = sampled(2000, top_p=0.7)
    assert set(counts) == {"A", "B", "AA", "AAB"}
    # After A the end has .5 and A .3 of what is left.
    assert (counts["AA"] + counts["AAB"]) / (2000 - counts["B"]) == pytest.approx(0.3 / 0.8, abs=0.04)


def test_scores_are_the_models_own() -> None:
    (found,) = SampleSearch(SampleOptions(top_p=0.5, temperature=0.3)).search(TableDecoder(LETTERS), ask())[0]
    assert found.tokens == [0]
    assert found.score == pytest.approx(math.log(0.3), abs=1e-6)


def test_a_low_temperature_is_greedy_and_a_high_one_is_even() -> None:
    assert set(sampled(100, temperature=0.01)) == {"A"}
    counts = sampled(4000, temperature=1000.0)
    assert counts["B"] / 4000 == pytest.approx(0.5 * 0.5, abs=0.03)


def test_the_same_seed_and_stream_give_the_same_text_in_any_batch() -> None:
    search = SampleSearch(SampleOptions(seed=3))
    together = search.search(TableDecoder(*[LETTERS] * 40), ask())
    again = search.search(TableDecoder(*[LETTERS] * 40), ask())
    alone = [search.search(TableDecoder(LETTERS), ask(streams=[row]))[0] for row in range(40)]
    assert together == again
    for ours, single in zip(together, alone, strict=True):
        assert ours[0].tokens == single[0].tokens
        assert ours[0].score == pytest.approx(single[0].score, abs=1e-9)
    assert len({tuple(each[0].tokens) for each in together}) > 3
    other = SampleSearch(SampleOptions(seed=4)).search(TableDecoder(*[LETTERS] * 40), ask())
    assert other != together


def test_streams_must_be_as_many_as_texts() -> None:
    with pytest.raises(KitError, match="1 streams for 2 texts"):
        SampleSearch(SampleOptions()).search(TableDecoder(LETTERS, LETTERS), ask(streams=[0]))
