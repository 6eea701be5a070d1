"""Disentangled attention against a loop over pairs, and against DeBERTa-v2 of transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.tiny_models import KIT, section
from transformers import DebertaV2Config
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention, make_log_bucket_position

from kit import BatchLayout, Options, TokenBatch
from kit.model.builder import ModelBuilder
from kit_attention.disentangled import DisentangledOptions, log_bucket
from kit_position.alibi import AlibiOptions
from kit_position.none import NoneOptions
from kit_position.rotary import RotaryOptions
from kit_position.shaw import ShawOptions

from .alone import attention, context, heads, layout, problems, sees, vectors


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("kv_heads", [3, 1])
@pytest.mark.parametrize("farthest", [2, 5, 9])
def test_equals_a_loop_over_pairs(causal: bool, kv_heads: int, farthest: int) -> None:
    part = attention(DisentangledOptions(heads=3, kv_heads=kv_heads, farthest=farthest))
    torch.nn.init.normal_(part.table)
    x, size = vectors(1, 5), 4 * kv_heads
    with torch.no_grad():
        found = part(x, None, context(layout(5), causal))[0]
        q, k, v = heads(part.query_key_value, x[0], (12, size, size), (3, kv_heads, kv_heads))
        far_q, far_k = heads(part.distance, part.table, (12, size), (3, kv_heads))
        for i in range(5):
            given = []
            for h in range(3):
                seen, g = [j for j in range(5) if sees(i, j, causal)], h * kv_heads // 3
                scores = []
                for j in seen:
                    row = min(max(i - j + farthest, 0), 2 * farthest - 1)
                    total = q[h, i] @ k[g, j] + q[h, i] @ far_k[g, row] + far_q[h, row] @ k[g, j]
                    scores.append(total / (3 * 4) ** 0.5)
                given.append(torch.stack(scores).softmax(0) @ v[g][seen])
            assert (found[i] - part.output(torch.cat(given))).abs().max() < 1e-12


@pytest.mark.parametrize("buckets", [None, 4])
@pytest.mark.parametrize("shared", [False, True], ids=["own projections", "shared projections"])
@pytest.mark.parametrize("length", [6, 30])
def test_equals_deberta_v2(buckets: int | None, shared: bool, length: int) -> None:
    config = DebertaV2Config(
        hidden_size=12,
        num_attention_heads=3,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        share_att_key=shared,
        max_relative_positions=10,
        position_buckets=buckets or -1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)
    theirs = DisentangledSelfAttention(config).double().eval()
    part = attention(DisentangledOptions(heads=3, farthest=10, buckets=buckets, shared_keys=shared))
    padding_mask = layout(length, length - 3).padding_mask
    assert padding_mask is not None
    x = vectors(2, length)
    with torch.no_grad():
        torch.nn.init.normal_(part.table)
        for parameter in theirs.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        content = (theirs.query_proj, theirs.key_proj, theirs.value_proj)
        part.query_key_value.weight.copy_(torch.cat([linear.weight for linear in content]))
        part.query_key_value.bias.copy_(torch.cat([linear.bias for linear in content]))
        if not shared:
            own = (theirs.pos_query_proj, theirs.pos_key_proj)
            part.distance.weight.copy_(torch.cat([linear.weight for linear in own]))
            part.distance.bias.copy_(torch.cat([linear.bias for linear in own]))
        mask = (padding_mask[:, None, :, None] & padding_mask[:, None, None, :]).expand(2, 1, length, length)
        wanted = part.output(theirs(x, mask, rel_embeddings=part.table)[0])
        found = part(x, None, context(layout(length, length - 3)))
    # Its scale is rounded to float32.
    assert (found - wanted)[padding_mask].abs().max() < 1e-5


@pytest.mark.parametrize(("buckets", "farthest"), [(256, 512), (32, 128), (16, 17), (10, 100), (2, 8)])
def test_log_buckets_are_those_of_deberta_v2(buckets: int, farthest: int) -> None:
    distance = torch.arange(-2 * farthest, 2 * farthest + 1)
    mine, theirs = log_bucket(distance, buckets, farthest), make_log_bucket_position(distance, buckets, farthest).long()
    assert torch.equal(mine.clamp(-buckets, buckets - 1), theirs.clamp(-buckets, buckets - 1))
    assert torch.equal(mine[distance.abs() < farthest], theirs[distance.abs() < farthest])
    assert (mine.diff() >= 0).all()


def test_batches_that_number_their_own_tokens_are_read_by_distance() -> None:
    part = attention(DisentangledOptions(heads=3, farthest=6))
    torch.nn.init.normal_(part.table)
    x = vectors(1, 4)

    def numbered(*numbers: int) -> BatchLayout:
        return BatchLayout.of(
            TokenBatch(torch.zeros(1, 4, dtype=torch.long), features={"position": torch.tensor([numbers])})
        )

    plain = part(x, None, context(layout(4)))
    assert (part(x, None, context(numbered(50, 51, 52, 53))) - plain).abs().max() < 1e-12
    far = part(x, None, context(numbered(0, 100, 200, 300)))
    assert (part(x, None, context(numbered(0, 7, 14, 21))) - far).abs().max() < 1e-12
    assert (far - plain).abs().max() > 1e-3


def test_the_table_serves_the_models_length() -> None:
    assert attention(DisentangledOptions(heads=3), length=20).table.shape == (40, 12)
    assert attention(DisentangledOptions(heads=3, farthest=7), length=20).table.shape == (14, 12)
    assert attention(DisentangledOptions(heads=3, buckets=6), length=20).table.shape == (12, 12)


def test_shared_projections_are_no_parameters_of_their_own() -> None:
    assert not hasattr(attention(DisentangledOptions(heads=3, shared_keys=True)), "distance")


@pytest.mark.parametrize("position", [RotaryOptions(), AlibiOptions(), ShawOptions()], ids=lambda options: options.use)
def test_positions_of_other_attentions_are_refused(position: Options) -> None:
    layer = {"attention": DisentangledOptions(heads=4)}
    found = list(ModelBuilder(KIT.registry).check(section("encoder", layer, position=position)))
    assert any(f"and the position {position.use} does" in problem.message for problem in found)
    assert not list(ModelBuilder(KIT.registry).check(section("encoder", layer, position=NoneOptions())))


@pytest.mark.parametrize("options", [{"buckets": 1}, {"buckets": 0}, {"farthest": 0}], ids=str)
def test_numbers_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        DisentangledOptions(**options)


def test_buckets_that_leave_nothing_far_are_refused() -> None:
    (problem,) = problems(DisentangledOptions(heads=3, buckets=16, farthest=9))
    assert problem.path == ("attention", "buckets") and "16 buckets hold 8 near distances" in problem.message
    assert not problems(DisentangledOptions(heads=3, buckets=16, farthest=10))
