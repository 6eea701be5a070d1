"""Sigmoid attention against a loop over pairs, and what n stands for in its bias."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from kit import AttentionRecorder
from kit_attention.sigmoid import SigmoidOptions

from .alone import attention, context, heads, layout, sees, vectors


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("count", ["length", "seen"])
def test_equals_a_sigmoid_of_each_pair(count: Any, causal: bool) -> None:
    part = attention(SigmoidOptions(heads=3, count=count), length=40)
    x, recorder = vectors(2, 5), AttentionRecorder()
    with torch.no_grad():
        found = part(x, None, context(layout(5, 3), causal, observer=recorder))
    (weights,) = recorder.by_site.values()
    for row, length in enumerate((5, 3)):
        with torch.no_grad():
            q, k, v = heads(part.query_key_value, x[row, :length], (12, 12, 12), (3, 3, 3))
        for i in range(length):
            given = []
            for h in range(3):
                seen = [j for j in range(length) if sees(i, j, causal)]
                n = 40 if count == "length" else len(seen)
                scores = [float(q[h, i] @ k[h, j]) / 2 - math.log(n) for j in seen]
                shares = [1 / (1 + math.exp(-score)) for score in scores]
                wanted = torch.zeros(5, dtype=torch.float64)
                wanted[seen] = torch.tensor(shares, dtype=torch.float64)
                assert (weights[row, h, i] - wanted).abs().max() < 1e-12
                given.append(sum(share * v[h, j] for share, j in zip(shares, seen, strict=True)))
            with torch.no_grad():
                assert (found[row, i] - part.output(torch.cat(given))).abs().max() < 1e-12


def test_weights_begin_near_one_over_n() -> None:
    """That is what the bias is for: alike keys share one unit of weight."""
    part = attention(SigmoidOptions(heads=1, count="seen"))
    with torch.no_grad():
        part.query_key_value.weight.zero_()
        part.query_key_value.bias.zero_()
    recorder = AttentionRecorder()
    part(vectors(1, 200), None, context(layout(200), observer=recorder))
    (weights,) = recorder.by_site.values()
    assert (weights.sum(-1) - 1).abs().max() < 0.01
