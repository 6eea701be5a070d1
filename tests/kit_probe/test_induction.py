"""Induction and duplicate-token heads on tokens that are read twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from models.synthetic_attention import Pretended, causal, even, previous
from torch import Tensor

from kit import Inspector
from kit_probe.induction import InductionOptions, InductionProbe

PROBE = InductionProbe(InductionOptions(length=5, sequences=3))


def heads(ids: Sequence[int]) -> Tensor:
    """An induction head, a duplicate-token head, a previous-token head and an even one."""
    size = len(ids)
    induction, duplicate = (torch.zeros(size, size, dtype=torch.float64) for _ in range(2))
    for query in range(size):
        earlier = [key for key in range(query) if ids[key] == ids[query]]
        induction[query, earlier[-1] + 1 if earlier else 0] = 1.0
        duplicate[query, earlier[-1] if earlier else 0] = 1.0
    return torch.stack([induction, duplicate, previous(size), even(causal(size))])


def test_each_head_is_told_from_the_others() -> None:
    kept = list(PROBE.gather(Pretended(heads), []))
    assert len(kept) == 3
    found = PROBE.aggregate(PROBE.align([each["decoder.0.attention"] for each in kept])).tolist()
    assert found[:3] == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    chance = sum(1 / (place + 1) for place in range(6, 11)) / 5  # a start token and ten others
    assert found[3] == pytest.approx([chance] * 3)


def test_roles() -> None:
    names = list(PROBE.quantities)
    told = [
        PROBE.role(dict(zip(names, values, strict=True)), "decoder") for values in ((0.9, 0, 0), (0, 0.9, 0), (0, 0, 1))
    ]
    assert told[0] is not None and "induction" in told[0].words
    assert told[1] is not None and "earlier occurrence" in told[1].words
    assert told[2] is None


def test_a_model_made_for_short_texts_gets_short_ones() -> None:
    assert list(PROBE.gather(Pretended(heads, length=6), [])) == []
    record = Pretended(heads, length=11)
    assert len(PROBE.sequences(record, 4)[0].source) == 8
    assert len(list(PROBE.gather(record, []))) == 3


def test_real_models_of_every_family(pairs: Inspector, text: Inspector, prefixed: Inspector) -> None:
    for inspector, sites in ((pairs, 4), (text, 2), (prefixed, 1)):
        kept = list(PROBE.gather(inspector, []))
        assert len(kept) == 3 and len(kept[0]) == sites
        assert all(((found >= 0) & (found <= 1)).all() for found in kept[0].values())
