"""Softmax attention against a loop over single pairs, in all its shapes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward

from kit import AttentionRecorder, Position
from kit_attention.softmax import SoftmaxOptions
from kit_position.none import NoneOptions

from .alone import attention, build_context, context, heads, layout, problems, sees, vectors

SHAPES: dict[str, dict[str, Any]] = {
    "single": {"heads": 1},
    "multi": {"heads": 3},
    "grouped": {"heads": 6, "kv_heads": 2},
    "one key for all": {"heads": 4, "kv_heads": 1},
    "low-rank values": {"heads": 3, "value_lora_rank": 2},
    "grouped low-rank values": {"heads": 4, "kv_heads": 2, "value_lora_rank": 5, "value_head_dim": 3},
    "own widths": {"heads": 3, "head_dim": 5, "value_head_dim": 7},
    "unscaled": {"heads": 2, "scale": 1.0},
    "own scale": {"heads": 3, "kv_heads": 1, "scale": 0.3},
    "capped": {"heads": 3, "logit_softcap": 0.7},
    "capped and unscaled": {"heads": 2, "logit_softcap": 1.5, "scale": 1.0, "kv_heads": 1},
    "no bias": {"heads": 3, "bias": False},
    "output bias alone": {"heads": 3, "bias": False, "output_bias": True},
}


def by_hand(part: Any, x_LD: Tensor, causal: bool, memory_KD: Tensor | None = None) -> Tensor:
    """One row, pair by pair."""
    options = part.options
    count, kv_heads = options.heads, options.kv_heads or options.heads
    width = options.head_dim or x_LD.shape[1] // count
    value = options.value_head_dim or width
    rank = options.value_lora_rank or kv_heads * value
    sizes, counts = (kv_heads * width, rank), (kv_heads, 1)
    if memory_KD is None:
        q, k, v = heads(part.query_key_value, x_LD, (count * width, *sizes), (count, *counts))
    else:
        (q,), (k, v) = (
            heads(part.query, x_LD, (count * width,), (count,)),
            heads(part.key_value, memory_KD, sizes, counts),
        )
    flat = v[0] if options.value_lora_rank is None else v[0] @ part.value_up.weight.T
    v = [flat[:, g * value : (g + 1) * value] for g in range(kv_heads)]
    rows = []
    for i in range(len(x_LD)):
        given = []
        for h in range(count):
            g = h // (count // kv_heads)
            seen = [j for j in range(k.shape[1]) if sees(i, j, causal)]
            scores = [float(q[h, i] @ k[g, j]) * (options.scale or 1 / math.sqrt(width)) for j in seen]
            if options.logit_softcap is not None:
                scores = [options.logit_softcap * math.tanh(score / options.logit_softcap) for score in scores]
            total = sum(math.exp(score) for score in scores)
            given.append(sum(math.exp(score) / total * v[g][j] for score, j in zip(scores, seen, strict=True)))
        rows.append(torch.cat(given) @ part.output.weight.T + (0 if part.output.bias is None else part.output.bias))
    return torch.stack(rows)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
def test_equals_a_loop_over_pairs(shape: str, causal: bool) -> None:
    part = attention(SoftmaxOptions(**SHAPES[shape]))
    x = vectors(2, 5)
    with torch.no_grad():
        found = part(x, None, context(layout(5, 3), causal))
        assert (found[0] - by_hand(part, x[0], causal)).abs().max() < 1e-12
        assert (found[1, :3] - by_hand(part, x[1, :3], causal)).abs().max() < 1e-12


@pytest.mark.parametrize("shape", SHAPES)
def test_attends_to_a_memory_of_another_width(shape: str) -> None:
    part = attention(SoftmaxOptions(**SHAPES[shape]), memory=9)
    x, memory = vectors(2, 4), vectors(2, 6, 9, seed=1)
    with torch.no_grad():
        found = part(x, memory, context(layout(4, 4), keys=layout(6, 2)))
        assert (found[0] - by_hand(part, x[0], False, memory[0])).abs().max() < 1e-12
        assert (found[1] - by_hand(part, x[1], False, memory[1, :2])).abs().max() < 1e-12


class Slope(Position):
    """Far keys count less."""

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        return -(q_at_BQ[:, None, :, None] - k_at_BK[:, None, None, :]).abs().double()


def test_a_cap_bends_dot_products_and_not_what_a_position_adds() -> None:
    part = attention(SoftmaxOptions(heads=1, logit_softcap=0.01))
    recorder = AttentionRecorder()
    slope = Slope(NoneOptions(), part.dims, build_context())
    part(vectors(1, 4), None, context(layout(4), position=slope, observer=recorder))
    (weights,) = recorder.by_site.values()
    # Dot products hardly count under so low a cap, so the distances decide.
    distance = (torch.arange(4)[:, None] - torch.arange(4)[None]).abs().double()
    assert (weights[0, 0] - (-distance).softmax(-1)).abs().max() < 0.01


def test_eight_heads_and_one_have_the_same_projections() -> None:
    for count in (1, 8):
        part = attention(SoftmaxOptions(heads=count, bias=False), width=512)
        assert part.query_key_value.weight.numel() == 786_432
        assert sum(p.numel() for p in part.parameters()) == 786_432 + 512 * 512


def test_groups_and_low_rank_values_save_parameters() -> None:
    def size(**changes: Any) -> int:
        part = attention(SoftmaxOptions(heads=8, bias=False, **changes), width=64)
        return sum(p.numel() for name, p in part.named_parameters() if not name.startswith("output"))

    assert size() == 3 * 64 * 64
    assert size(kv_heads=2) == 64 * 64 + 2 * 64 * 16
    assert size(value_lora_rank=4) == 2 * 64 * 64 + 2 * 64 * 4


def test_dropped_weights_are_dropped_in_training_only() -> None:
    part = attention(SoftmaxOptions(heads=2, dropout=0.5))
    x, where = vectors(1, 6), context(layout(6))
    calm = part(x, None, where)
    assert torch.equal(calm, part(x, None, where))
    part.train()
    torch.manual_seed(0)
    wild = torch.stack([part(x, None, where) for _ in range(2000)])
    assert not torch.equal(wild[0], wild[1])
    assert (wild.mean(0) - calm).abs().max() < 0.1


@pytest.mark.parametrize(
    ("options", "place", "words"),
    [
        ({"heads": 5}, ("attention", "heads"), "5 heads do not divide the width 12"),
        ({"heads": 6, "kv_heads": 4}, ("attention", "kv_heads"), "4 kv_heads do not divide 6 heads"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(options: dict[str, Any], place: tuple[str, ...], words: str) -> None:
    (problem,) = problems(SoftmaxOptions(**options))
    assert problem.path == place and words in problem.message and problem.hint


@pytest.mark.parametrize(
    "options",
    [{"heads": 0}, {"logit_softcap": 0.0}, {"logit_softcap": -1.0}, {"dropout": 1.0}, {"kv_heads": -1}],
    ids=str,
)
def test_numbers_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        SoftmaxOptions(**options)


def test_a_cap_is_that_of_gemma_2() -> None:
    part = attention(SoftmaxOptions(heads=3, logit_softcap=0.7))
    x = vectors(1, 5)
    with torch.no_grad():
        q, k, v = (t.unflatten(-1, (3, 4)).transpose(1, 2) for t in part.query_key_value(x).split(12, -1))
        wanted, _ = eager_attention_forward(Grouping(), q, k, v, None, scaling=0.5, softcap=0.7)
        # Its softmax is in float32 whatever it is given.
        assert (part(x, None, context(layout(5))) - part.output(wanted.flatten(2))).abs().max() < 1e-6


class Grouping(torch.nn.Module):
    num_key_value_groups = 1
