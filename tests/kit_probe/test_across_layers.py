"""Rollout, flow, similarity and alignment, on attention that is made by hand."""

from __future__ import annotations

import math

import pytest
import torch
from models.synthetic_attention import causal, even, everything, own, previous, row, sink
from torch import Tensor

from kit import AttentionMap, AttentionRecord, Inspector
from kit_inspect.head_report import measure_heads
from kit_probe.alignment import AlignmentOptions, AlignmentProbe, agreement
from kit_probe.flow import FlowOptions, FlowProbe, flow
from kit_probe.ibm_aligner import IbmAligner
from kit_probe.rollout import RolloutOptions, RolloutProbe, rollout, rollout_across
from kit_probe.similarity import SimilarityOptions, SimilarityProbe, divergence


def random_weights(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).mul(2).softmax(-1)


def pair(depth: int, source: int = 4, target: int = 3) -> AttentionRecord:
    """An encoder-decoder with any weights."""
    maps = []
    for layer in range(depth):
        maps.append(
            AttentionMap(
                f"encoder.{layer}.attention", "encoder", layer, random_weights(2, source, source), everything(source)
            )
        )
    for layer in range(depth):
        own_weights = random_weights(2, target, target, seed=layer).tril()
        own_weights = own_weights / own_weights.sum(-1, keepdim=True)
        maps.append(AttentionMap(f"decoder.{layer}.attention", "decoder", layer, own_weights, causal(target)))
        cross = random_weights(2, target, source, seed=layer + 9)
        maps.append(AttentionMap(f"decoder.{layer}.cross_attention", "cross", layer, cross, everything(target, source)))
    return AttentionRecord(tuple(maps), row(range(6, 6 + source)), row(range(6, 6 + target), True))


def test_rollout_of_one_layer_keeps_half_and_rows_sum_to_one() -> None:
    (one,) = own([previous(4)[None]], causal(4)).maps
    wanted = torch.eye(4, dtype=torch.float64) / 2 + previous(4) / 2
    assert torch.equal(rollout([one]), wanted)
    maps = own([random_weights(3, 5, 5, seed=seed) for seed in range(6)], everything(5)).maps
    assert (rollout(maps).sum(-1) - 1).abs().max() < 1e-12
    assert torch.allclose(rollout(maps[:2]), _plain(maps[1]) @ _plain(maps[0]))
    (resting,) = own([sink(3)[None]], causal(3)).maps
    assert rollout([resting] * 3)[2].tolist() == pytest.approx([7 / 8, 0, 1 / 8])


def test_rollout_of_an_encoder_decoder_sums_to_one_and_its_source_share_is_fixed() -> None:
    for depth in (1, 4):
        on_target, on_source = rollout_across(pair(depth))
        assert (on_target.sum(-1) + on_source.sum(-1) - 1).abs().max() < 1e-12
        # The trap: this share does not depend on the model.
        assert (on_source.sum(-1) - (1 - 0.5**depth)).abs().max() < 1e-12
    pictures = RolloutProbe(RolloutOptions()).draw(pair(4), None)  # type: ignore[arg-type]
    assert [it.name for it in pictures] == ["rollout, encoder", "rollout, target to source"]
    assert "93.8%" in pictures[1].note and pictures[1].values.shape == (3, 4)


def test_rollout_of_a_decoder_is_held_against_even_attention() -> None:
    record = own([even(causal(5))[None]] * 3, causal(5))
    _, ratio = RolloutProbe(RolloutOptions()).draw(record, None)  # type: ignore[arg-type]
    assert torch.allclose(ratio.values, torch.ones(5, 5, dtype=torch.float64).tril())
    _, ratio = RolloutProbe(RolloutOptions()).draw(own([sink(5)[None]] * 3, causal(5)), None)  # type: ignore[arg-type]
    assert ratio.values[4, 0] > 1.5 and ratio.values[4, 2] == 0


def test_attention_that_cannot_be_seen_is_not_drawn() -> None:
    record = AttentionRecord((), row([6, 7]), None, {"encoder.0.attention": "it has none"})
    assert RolloutProbe(RolloutOptions()).draw(record, None) == []  # type: ignore[arg-type]
    assert FlowProbe(FlowOptions()).draw(record, None) == []  # type: ignore[arg-type]


def test_flow_of_one_layer_is_its_weights_and_of_two_what_the_narrowest_pipes_let_through() -> None:
    one = own([random_weights(2, 4, 4)], everything(4)).maps
    assert torch.allclose(flow(one), _plain(one[0]))
    chain = own([previous(3)[None]] * 2, causal(3)).maps
    # Token 2 reaches 0 through 1 only (1/2), itself by staying (1/2), and 1 in two ways (1/2 each).
    assert flow(chain)[2].tolist() == pytest.approx([0.25, 0.5, 0.25])
    assert (flow(chain).sum(-1) - 1).abs().max() < 1e-12
    assert FlowProbe(FlowOptions(tokens=2)).draw(own([previous(3)[None]], causal(3)), None) == []  # type: ignore[arg-type]


def test_divergence_is_0_for_the_same_and_ln_2_for_nothing_in_common() -> None:
    size = 5
    heads = torch.stack([previous(size), previous(size), torch.eye(size, dtype=torch.float64)])[:, 1:]
    found = divergence(heads)
    assert found[0, 1] == 0 and found[0, 2].item() == pytest.approx(math.log(2)) and torch.equal(found, found.T)


def test_long_texts_count_no_more_than_short_ones() -> None:
    probe_ = SimilarityProbe(SimilarityOptions())
    found = [
        float(
            probe_.compare(own([torch.stack([previous(size), torch.eye(size).double()])], causal(size)))["decoder"][
                0, 1
            ]
        )
        for size in (3, 30)
    ]
    assert found == pytest.approx([math.log(2)] * 2)


def test_heads_are_grouped_across_layers_and_the_root_is_a_distance() -> None:
    probe_ = SimilarityProbe(SimilarityOptions())
    size = 6
    maps = [torch.stack([previous(size), sink(size)]), torch.stack([sink(size), even(causal(size))])]
    distance = probe_.distance(probe_.compare(own(maps, causal(size)))["decoder"])
    assert probe_.clusters(distance) == [0, 1, 1, 2]
    assert distance[0, 1] <= distance[0, 3] + distance[3, 1] + 1e-12
    assert float(distance.max()) <= math.sqrt(math.log(2)) + 1e-12


def test_alignment_is_read_at_the_query_that_writes_a_token() -> None:
    # Three tokens are written from a source of three and its end; the third head looks one place too late.
    shown = torch.zeros(3, 4, 4, dtype=torch.float64)
    places = torch.arange(3)
    shown[0, places, 2 - places] = 1.0
    shown[1] = 0.25
    shown[2, places + 1, 2 - places] = 1.0
    shown[2, 0, 3] = 1.0
    found = agreement(shown, [2, 1, 0])
    assert found[0].tolist() == [1.0, 1.0] and found[1].tolist() == [0.25, 0.25] and found[2].tolist() == [0.0, 0.0]
    assert agreement(shown, [2, None, 0])[0].tolist() == [1.0, 1.0]


def test_the_alignment_model_learns_pairs_of_tokens() -> None:
    generator = torch.Generator().manual_seed(0)
    texts = [torch.randperm(20, generator=generator)[:5].tolist() for _ in range(60)]
    aligner = IbmAligner(tension=0.0)
    aligner.train([(text, [100 + token for token in reversed(text)]) for text in texts], 10)
    assert aligner.align([3, 5, 9], [109, 105, 103]) == [2, 1, 0]
    near = IbmAligner(tension=8.0)
    assert near.align([1, 2, 3], [7, 8, 9]) == [0, 1, 2]


def test_alignment_of_a_run(pairs: Inspector) -> None:
    texts = [("1 2 3", "3 2 1"), ("4 5", "5 4"), ("6 7 8 1", "1 8 7 6")]
    report = measure_heads(pairs, [AlignmentProbe(AlignmentOptions())], texts)
    crossing = [card for card in report.heads if card.kind == "cross"]
    assert len(crossing) == 4 and all("alignment" in card.estimates for card in crossing)
    assert all(card.estimates == {} for card in report.heads if card.kind != "cross")
    (first, _) = AlignmentProbe(AlignmentOptions()).draw(pairs.record(("1 2", "2 1")), pairs)
    assert first.rows == ("2", "1", "<end>") and first.columns == ("1", "2", "<end>")


def _plain(found: AttentionMap) -> Tensor:
    return found.weights.mean(0) / 2 + torch.eye(len(found.attention_mask), dtype=torch.float64) / 2
