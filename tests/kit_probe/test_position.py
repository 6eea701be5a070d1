"""Shares of position and content: heads of which both are known, and the bias of few texts."""

from __future__ import annotations

import pytest
import torch
from models.synthetic_attention import Pretended, alibi, causal, even, everything, own, previous, sink, softmax
from torch import Tensor

from kit import AttentionRecord, ExampleIds
from kit_probe.position import PositionOptions, PositionProbe, basis, shares
from kit_probe.shuffled import ShuffledOptions, ShuffledProbe

SIZE, TEXTS = 32, 64


def measured(
    records: list[AttentionRecord], space: str = "weights", site: str = "decoder.0.attention"
) -> tuple[float, ...]:
    probe = PositionProbe(PositionOptions(space=space))  # type: ignore[arg-type]
    kept = [probe.measure_record(record)[site] for record in records]
    (head,) = probe.aggregate(probe.align(kept)).tolist()
    assert sum(head[:3]) == pytest.approx(1.0, abs=1e-9) or head[3] < 1e-12
    return tuple(head)


def repeated(weights: Tensor) -> list[AttentionRecord]:
    return [own([weights[None]], causal(SIZE))] * TEXTS


def content(texts: int = TEXTS, scale: float = 1.0, extra: float = 0.0, seed: int = 3) -> list[AttentionRecord]:
    """Scores of random queries and keys, with or without a slope."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.arange(SIZE).double()
    found = []
    for _ in range(texts):
        q, k = torch.randn(2, SIZE, 16, generator=generator, dtype=torch.float64)
        scores = scale * q @ k.T / 4 + extra * (places[None] - places[:, None])
        found.append(own([softmax(scores, causal(SIZE))[None]], causal(SIZE)))
    return found


def test_a_head_that_goes_by_distance_is_relative() -> None:
    for space in ("weights", "logits"):
        assert measured(repeated(previous(SIZE)), space) == pytest.approx((1.0, 0.0, 0.0, 1.0), abs=1e-9)


def test_an_alibi_head_is_nearly_relative_in_weights_and_exactly_in_scores() -> None:
    relative, absolute, rest, focus = measured(repeated(alibi(SIZE)))
    assert (relative, absolute, rest, focus) == pytest.approx((0.97, 0.03, 0.0, 0.07), abs=0.01)
    assert measured(repeated(alibi(SIZE)), "logits")[:3] == pytest.approx((1.0, 0.0, 0.0), abs=1e-9)


def test_a_sink_is_absolute() -> None:
    relative, absolute, rest, focus = measured(repeated(sink(SIZE)))
    assert (relative, absolute, rest, focus) == pytest.approx((0.12, 0.88, 0.0, 1.0), abs=0.01)


def test_a_head_that_goes_by_the_tokens_is_content() -> None:
    for space in ("weights", "logits"):
        relative, absolute, rest, _ = measured(content(), space)
        assert (relative, absolute, rest) == pytest.approx((0.0, 0.0, 1.0), abs=0.03)
    relative, _, rest, _ = measured(content(extra=0.25), "logits")
    assert 0.2 < relative < 0.8 and 0.2 < rest < 0.8


@pytest.mark.parametrize("texts", [4, 8])
def test_few_texts_do_not_make_content_look_like_position(texts: int) -> None:
    probe, allowed = PositionProbe(PositionOptions()), causal(SIZE) & (causal(SIZE).sum(1, keepdim=True) > 1)
    raw, corrected = [], []
    for seed in range(24):
        records = content(texts, seed=seed)
        y = probe.align([probe.measure_record(record)["decoder.0.attention"] for record in records])
        y = y[:, 0][:, allowed] - even(causal(SIZE))[allowed]
        raw.append(float(1 - ((y - y.mean(0)) ** 2).sum() / (y**2).sum()))
        corrected.append(sum(measured(records)[:2]))
    assert sum(raw) / len(raw) > 0.8 / texts
    assert abs(sum(corrected) / len(corrected)) < 0.02


def test_an_even_head_has_no_focus() -> None:
    relative, absolute, rest, focus = measured(repeated(even(causal(SIZE))))
    assert (relative, absolute, rest, focus) == pytest.approx((0, 0, 0, 0), abs=1e-9)
    probe = PositionProbe(PositionOptions())
    role = probe.role(dict.fromkeys(probe.quantities, 0.0), "decoder")
    assert role is not None and "uniformly" in role.words


def test_shares_before_the_correction_are_never_negative() -> None:
    y = torch.randn(500, 3, 27, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 1
    columns = basis(torch.ones(3, 9).bool(), None)
    found = shares(y, columns)
    assert found.shape == (3, 3) and (found.sum(1) - 1).abs().max() < 1e-9 and (found > -0.02).all()


def test_causal_texts_are_cut_to_one_length_and_others_need_the_same() -> None:
    probe = PositionProbe(PositionOptions())
    texts = [own([previous(size)[None]], causal(size)) for size in (5, 8, 9, 12)]
    assert probe.align([probe.measure_record(record)["decoder.0.attention"] for record in texts]).shape == (2, 1, 9, 9)
    both = [own([even(everything(size))[None]], everything(size), kind="encoder") for size in (5, 8, 8, 12)]
    assert probe.align([probe.measure_record(record)["encoder.0.attention"] for record in both]).shape == (2, 1, 8, 8)


def test_shuffling_tells_position_from_content() -> None:
    generator = torch.Generator().manual_seed(1)
    table = 3 * torch.randn(200, 200, generator=generator, dtype=torch.float64)

    def by_place(ids: list[int]) -> Tensor:
        return torch.stack([previous(len(ids)), alibi(len(ids))])

    def by_token(ids: list[int]) -> Tensor:
        scores = table[ids][:, ids]
        return softmax(scores, causal(len(ids)))[None]

    def by_token_everywhere(ids: list[int]) -> Tensor:
        # Only what is looked for counts, without softmax: exactly a matter of two tokens.
        weights = torch.zeros(len(ids), len(ids), dtype=torch.float64)
        order = sorted(range(1, len(ids) - 1), key=ids.__getitem__)
        for place, after in zip(order, [*order[1:], order[0]], strict=True):
            weights[place, after] = 1.0
        weights[0, 0] = weights[-1, -1] = 1.0
        return weights[None]

    rows = [ExampleIds(tuple(torch.randperm(150, generator=generator)[:12].add(6).tolist())) for _ in range(8)]
    probe = ShuffledProbe(ShuffledOptions(sequences=8))
    for head in _shuffled(probe, Pretended(by_place), rows):
        assert head == pytest.approx([1.0, 0.0, 0.0], abs=1e-9)
    position, token, rest = _shuffled(probe, Pretended(by_token), rows)[0]
    assert abs(position) < 0.1 and token > 0.5 and position + token + rest == pytest.approx(1.0, abs=1e-9)
    position, token, _ = _shuffled(probe, Pretended(by_token_everywhere, "encoder"), rows)[0]
    assert position == pytest.approx(0.0, abs=0.05) and token == pytest.approx(1.0, abs=0.1)


def _shuffled(probe: ShuffledProbe, inspector: Pretended, rows: list[ExampleIds]) -> list[list[float]]:
    kept = list(probe.gather(inspector, rows))
    (site,) = kept[0]
    found: list[list[float]] = probe.aggregate(probe.align([each[site] for each in kept])).tolist()
    return found
