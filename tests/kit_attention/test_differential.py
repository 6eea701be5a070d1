"""Differential attention against a loop over pairs, and against DiffLlama of transformers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DiffLlamaConfig
from transformers.models.diffllama.modeling_diffllama import DiffLlamaAttention

from kit_attention.differential import DifferentialOptions

from .alone import attention, context, heads, layout, problems, sees, vectors


def by_hand(part: Any, x_LD: Tensor, causal: bool, layer: int) -> Tensor:
    """One row, pair by pair; the norm and the balance written out."""
    count = part.options.heads
    width, kv_heads = 12 // (2 * count), part.options.kv_heads or count
    size = 2 * kv_heads * width
    q, k, v = heads(part.query_key_value, x_LD, (12, size, size), (2 * count, 2 * kv_heads, 2 * kv_heads))
    first = 0.8 - 0.6 * math.exp(-0.3 * layer)
    rows = []
    for i in range(len(x_LD)):
        given = []
        for h in range(count):
            g, own = h // (count // kv_heads), h if part.options.balance == "head" else 0
            raised = [math.exp(float(part.balance_queries[n, own] @ part.balance_keys[n, own])) for n in (0, 1)]
            balance = raised[0] - raised[1] + first
            seen = [j for j in range(len(x_LD)) if sees(i, j, causal)]
            maps = [
                torch.stack([q[h + n * count, i] @ k[g + n * kv_heads, j] for j in seen]).div(width**0.5).softmax(0)
                for n in (0, 1)
            ]
            values = torch.cat([v[g], v[g + kv_heads]], -1)[seen]
            out = (maps[0] - balance * maps[1]) @ values
            given.append(out / (out.square().mean() + 1e-5).sqrt() * part.gain * (1 - first))
        rows.append(part.output(torch.cat(given)))
    return torch.stack(rows)


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("kv_heads", [None, 1], ids=["own keys", "one pair of keys"])
@pytest.mark.parametrize("balance", ["head", "layer"])
def test_equals_a_loop_over_pairs(causal: bool, kv_heads: int | None, balance: Any) -> None:
    part = attention(DifferentialOptions(heads=3, kv_heads=kv_heads, balance=balance), layer=2)
    torch.nn.init.normal_(part.gain)
    x = vectors(2, 5)
    with torch.no_grad():
        found = part(x, None, context(layout(5, 3), causal))
        assert (found[0] - by_hand(part, x[0], causal, 2)).abs().max() < 1e-12
        assert (found[1, :3] - by_hand(part, x[1, :3], causal, 2)).abs().max() < 1e-12


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_equals_diffllama(kv_heads: int) -> None:
    """Whose heads count single maps, whose norm has no gain and whose layer shares one balance."""
    config = DiffLlamaConfig(
        hidden_size=16, num_attention_heads=4, num_key_value_heads=2 * kv_heads, rms_norm_eps=1e-5, attention_bias=False
    )
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    theirs = DiffLlamaAttention(config, layer_idx=3).double().eval()
    part = attention(DifferentialOptions(heads=2, kv_heads=kv_heads, bias=False, balance="layer"), width=16, layer=3)
    x = vectors(2, 5, 16)
    with torch.no_grad():
        part.query_key_value.weight.copy_(torch.cat([p.weight for p in (theirs.q_proj, theirs.k_proj, theirs.v_proj)]))
        part.output.weight.copy_(theirs.o_proj.weight)
        part.balance_queries.copy_(torch.stack([theirs.lambda_q1, theirs.lambda_q2])[:, None])
        part.balance_keys.copy_(torch.stack([theirs.lambda_k1, theirs.lambda_k2])[:, None])
        unturned = (torch.ones(1, 5, 4, dtype=torch.float64), torch.zeros(1, 5, 4, dtype=torch.float64))
        hidden = torch.full((1, 1, 5, 5), float("-inf"), dtype=torch.float64).triu(1)
        wanted = theirs(x, unturned, hidden)[0]
        found = part(x, None, context(layout(5, 5), causal=True))
    # Its softmax is in float32 whatever it is given.
    assert (found - wanted).abs().max() < 1e-6


def test_has_as_many_parameters_as_plain_attention_and_few_more() -> None:
    part = attention(DifferentialOptions(heads=4, bias=False), width=64)
    assert part.query_key_value.weight.shape == (3 * 64, 64) and part.output.weight.shape == (64, 64)
    assert sum(p.numel() for p in part.parameters()) == 4 * 64 * 64 + 4 * 4 * 8 + 16


def test_the_balance_begins_higher_in_later_layers() -> None:
    begins = [attention(DifferentialOptions(heads=3), layer=layer).first_balance for layer in (0, 1, 11)]
    assert begins == pytest.approx([0.2, 0.8 - 0.6 * math.exp(-0.3), 0.8 - 0.6 * math.exp(-3.3)])


def test_dropping_the_same_keys_of_both_maps_keeps_the_mean() -> None:
    part = attention(DifferentialOptions(heads=3, dropout=0.3)).train()
    out = torch.stack([part(vectors(1, 5), None, context(layout(5))) for _ in range(3)])
    assert out.isfinite().all() and not torch.equal(out[0], out[1])


@pytest.mark.parametrize(
    ("options", "place", "words"),
    [
        ({"heads": 4}, "heads", "8 do not divide 12"),
        ({"heads": 5}, "heads", "5 heads do not divide the width 12"),
        ({"heads": 3, "value_head_dim": 5}, "value_head_dim", "the width 5 is odd"),
        ({"heads": 6, "kv_heads": 4}, "kv_heads", "4 kv_heads do not divide 6 heads"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(options: dict[str, Any], place: str, words: str) -> None:
    (problem,) = problems(DifferentialOptions(**options))
    assert problem.path == ("attention", place) and words in problem.message and problem.hint
