"""Additive attention against Bahdanau's formula: scores v · tanh(W s + U h), softmax, values by weight."""

from __future__ import annotations

import math

import pytest
import torch

from kit import AttentionRecorder
from kit_attention.additive import AdditiveOptions

from .alone import attention, context, heads, layout, sees, vectors


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("kv_heads", [None, 1], ids=["own keys", "one key for all"])
def test_equals_bahdanaus_formula_in_heads(causal: bool, kv_heads: int | None) -> None:
    part = attention(AdditiveOptions(heads=3, kv_heads=kv_heads))
    x, count = vectors(1, 5), kv_heads or 3
    recorder = AttentionRecorder()
    with torch.no_grad():
        found = part(x, None, context(layout(5), causal, observer=recorder))[0]
        q, k, v = heads(part.query_key_value, x[0], (12, count * 4, count * 4), (3, count, count))
    (weights,) = recorder.by_site.values()
    for i in range(5):
        given = []
        for h in range(3):
            g = h if kv_heads is None else 0
            energies = [
                math.exp(float(sum(part.score[h].detach() * torch.tanh(q[h, i] + k[g, j]))))
                if sees(i, j, causal)
                else 0.0
                for j in range(5)
            ]
            shares = [energy / sum(energies) for energy in energies]
            assert (weights[0, h, i] - torch.tensor(shares, dtype=torch.float64)).abs().max() < 1e-12
            given.append(sum(share * v[g, j] for j, share in enumerate(shares)))
        wanted = torch.cat(given) @ part.output.weight.T + part.output.bias
        assert (found[i] - wanted).abs().max() < 1e-12


def test_reads_a_memory_with_one_head_as_in_2015() -> None:
    """The decoder's state is the query, the encoder's states are keys and values."""
    part = attention(AdditiveOptions(heads=1), memory=7)
    x, memory = vectors(1, 2), vectors(1, 4, 7, seed=1)
    with torch.no_grad():
        found = part(x, memory, context(layout(2), keys=layout(4)))[0]
        w, u = part.query, part.key_value
        keys, values = (memory[0] @ u.weight.T + u.bias).split((12, 12), -1)
        for i in range(2):
            energies = torch.tanh(w(x[0, i]) + keys) @ part.score[0]
            wanted = part.output(energies.softmax(-1) @ values)
            assert (found[i] - wanted).abs().max() < 1e-12
