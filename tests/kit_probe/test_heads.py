"""Heads whose numbers are known beforehand, and the traps that others fell into."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from models.synthetic_attention import alibi, causal, even, everything, own, previous, row, sink
from torch import Tensor

from kit import AttentionMap, AttentionRecord, RecordProbe
from kit_probe.confidence import ConfidenceOptions, ConfidenceProbe
from kit_probe.distance import DistanceOptions, DistanceProbe
from kit_probe.entropy import EntropyOptions, EntropyProbe
from kit_probe.offset import OffsetOptions, OffsetProbe
from kit_probe.special_tokens import SpecialTokensOptions, SpecialTokensProbe

SIZE = 6


def numbers(probe: RecordProbe, record: AttentionRecord) -> list[dict[str, float]]:
    """What a probe says of each head of the first attention."""
    (found, *_) = probe.measure_record(record).values()
    values = probe.aggregate(probe.align([found]))
    return [dict(zip(probe.quantities, head, strict=True)) for head in values.tolist()]


def of(probe: RecordProbe, weights: Tensor, allowed: Tensor, **more: Any) -> dict[str, float]:
    return numbers(probe, own([weights[None]], allowed, **more))[0]


ENTROPY, CONFIDENCE = EntropyProbe(EntropyOptions()), ConfidenceProbe(ConfidenceOptions())
DISTANCE, OFFSET, SPECIAL = (
    DistanceProbe(DistanceOptions()),
    OffsetProbe(OffsetOptions()),
    SpecialTokensProbe(SpecialTokensOptions()),
)


def test_entropy_of_a_sharp_head_is_exactly_0_and_of_an_even_one_exactly_1() -> None:
    assert of(ENTROPY, previous(SIZE), causal(SIZE)) == {"entropy": 0.0, "effective keys": 1.0}
    found = of(ENTROPY, even(causal(SIZE)), causal(SIZE))
    # Each query is measured by the keys that it sees, 2 to 6 of them; the first sees one, and has no choice.
    assert found["entropy"] == pytest.approx(1.0, abs=1e-12)
    assert found["effective keys"] == pytest.approx((2 + 3 + 4 + 5 + 6) / 5)
    half = torch.tensor([[0.5, 0.5, 0, 0]] * 4)
    assert of(ENTROPY, half, everything(4))["entropy"] == pytest.approx(0.5)


def test_an_alibi_head_has_the_entropy_of_its_softmax() -> None:
    weights = alibi(SIZE)
    wanted = [
        -sum(p * math.log(p) for p in weights[query, : query + 1].tolist()) / math.log(query + 1)
        for query in range(1, SIZE)
    ]
    assert of(ENTROPY, weights, causal(SIZE))["entropy"] == pytest.approx(sum(wanted) / len(wanted), abs=1e-12)


def test_confidence_leaves_the_end_out_and_does_not_share_out_its_weight() -> None:
    weights = torch.tensor([[0.1, 0.2, 0.7]] * 3)
    ids = [6, 7, 2]
    found = of(CONFIDENCE, weights, everything(3), ids=ids, kind="encoder")
    assert found["confidence"] == pytest.approx(0.2)
    every = ConfidenceProbe(ConfidenceOptions(ignore="none"))
    assert of(every, weights, everything(3), ids=ids, kind="encoder")["confidence"] == pytest.approx(0.7)
    special = ConfidenceProbe(ConfidenceOptions(ignore="special"))
    assert of(special, weights, everything(3), ids=[1, 7, 2], kind="encoder")["confidence"] == pytest.approx(0.2)
    even_value = of(CONFIDENCE, even(causal(4)), causal(4))["confidence"]
    assert even_value == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)


def test_distance_and_direction_tell_left_from_right() -> None:
    found = of(DISTANCE, previous(SIZE), causal(SIZE))
    assert (found["distance"], found["direction"], found["near"]) == (1.0, -1.0, 1.0)
    following = previous(SIZE).flip(0, 1)
    assert of(DISTANCE, following, everything(SIZE))["direction"] == pytest.approx((5 * 1.0 + 0) / 6)
    far = of(DISTANCE, sink(SIZE), causal(SIZE))
    assert far["distance"] == pytest.approx(3.0) and far["direction"] == pytest.approx(-3.0)
    assert far["distance ratio"] == pytest.approx(2.0)
    assert far["near"] == pytest.approx(2 / 5)
    assert of(DISTANCE, even(causal(SIZE)), causal(SIZE))["distance ratio"] == pytest.approx(1.0)


def test_the_record_is_query_by_key_so_previous_is_not_next() -> None:
    found = of(OFFSET, previous(SIZE), causal(SIZE))
    assert found["previous"] == 1.0 and found["previous first"] == 1.0
    assert found["itself"] == 0.0 and math.isnan(found["next"])
    both = of(OFFSET, previous(SIZE), everything(SIZE))
    assert both["previous"] == 1.0 and both["next"] == 0.0 and both["next first"] == 0.0
    turned = of(OFFSET, previous(SIZE).T.contiguous(), everything(SIZE))
    assert turned["previous"] == 0.0


def test_an_even_head_has_no_favourite_offset() -> None:
    found = of(OFFSET, even(everything(5)), everything(5))
    assert found == pytest.approx(dict.fromkeys(OFFSET.quantities, 0.2))


def test_other_offsets_can_be_asked_for() -> None:
    probe = OffsetProbe(OffsetOptions(offsets=[-2]))
    weights = torch.eye(5).roll(-2, 1)
    found = of(probe, weights, everything(5))
    assert list(found) == ["offset -2", "offset -2 first"] and found["offset -2"] == 1.0


def test_a_sink_rests_on_the_start() -> None:
    record = own([torch.stack([sink(4), previous(4)])], causal(4), ids=[1, 7, 8, 9])
    resting, other = numbers(SPECIAL, record)
    assert resting == {"special": 1.0, "first": 1.0}
    assert other == pytest.approx({"special": 1 / 3, "first": 1 / 3})


def test_texts_without_a_choice_say_nothing() -> None:
    one = own([torch.ones(1, 1, 1)], causal(1))
    assert all(probe.measure_record(one) == {} for probe in (ENTROPY, CONFIDENCE, DISTANCE, SPECIAL))
    found = AttentionMap("decoder.0.cross_attention", "cross", 0, torch.ones(1, 2, 1), everything(2, 1))
    assert ENTROPY.measure_record(AttentionRecord((found,), row([6]), row([6, 7]))) == {}


@pytest.mark.parametrize(
    ("probe", "weights", "words"),
    [
        (OFFSET, previous(SIZE), "the token before"),
        (SPECIAL, sink(SIZE), "a sink"),
        (ENTROPY, even(causal(SIZE)), "uniformly"),
        (DISTANCE, previous(SIZE), "near, mostly to the left"),
    ],
    ids=["previous", "sink", "even", "near"],
)
def test_roles_are_told_in_plain_words(probe: RecordProbe, weights: Tensor, words: str) -> None:
    role = probe.role(of(probe, weights, causal(SIZE)), "decoder")
    assert role is not None and words in role.words
    assert probe.role(of(probe, alibi(SIZE, 0.3), causal(SIZE)), "decoder") is None
