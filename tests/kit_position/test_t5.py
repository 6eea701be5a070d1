"""Relative buckets against Hugging Face, number by number."""

from __future__ import annotations

import pytest
import torch
from models.single_parts import problems, single_part
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from kit_position.t5 import T5Options, bucket_of


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 20), (64, 500)])
def test_buckets_are_identical(both_ways: bool, buckets: int, farthest: int) -> None:
    distance = torch.arange(-600, 601)
    wanted = T5Attention._relative_position_bucket(distance, both_ways, buckets, farthest)
    assert torch.equal(bucket_of(distance, both_ways, buckets, farthest), wanted)


@pytest.mark.parametrize("causal", [False, True])
def test_bias_equals_hugging_face(causal: bool) -> None:
    config = T5Config(d_model=32, num_heads=4, d_kv=8, is_decoder=causal)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    part = single_part(T5Options(), causal)
    part.table.data.copy_(theirs.relative_attention_bias.weight.data)
    at = torch.arange(300)[None]
    assert torch.equal(part.bias(at, at), theirs.compute_bias(300, 300))
    assert torch.equal(part.bias(at[:, 290:], at), theirs.compute_bias(10, 300, past_seen_tokens=290))


def test_one_table_serves_all_layers_of_a_stack() -> None:
    from models.tiny_models import build

    model = build("encoder-decoder", position=T5Options())
    tables = [name for name, _ in model.named_parameters() if name.endswith("table") and "position" in name]
    assert len(tables) == 2
    assert {name.split(".")[0] for name in tables} == {"encoder", "decoder"}


def test_impossible_buckets_are_refused() -> None:
    assert problems(T5Options(buckets=6))[0].path[-1] == "buckets"
    assert not problems(T5Options(buckets=6), causal=True)
    (problem,) = problems(T5Options(buckets=32, farthest=8))
    assert problem.path[-1] == "farthest"
