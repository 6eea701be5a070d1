"""A softmax with a sink against its formula, softmax-one, and gpt-oss."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

from kit import AttentionRecorder
from kit_attention.sink import SinkOptions

from .alone import attention, context, heads, layout, sees, vectors


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("logit", ["learned", "softmax_one"])
def test_equals_a_softmax_with_one_more_term_below(logit: Any, causal: bool) -> None:
    part = attention(SinkOptions(heads=3, logit=logit))
    sinks = [0.0] * 3
    if logit == "learned":
        sinks = [-1.0, 0.5, 2.0]
        part.sink.data.copy_(torch.tensor(sinks).view(3, 1, 1))
    x, recorder = vectors(1, 5), AttentionRecorder()
    with torch.no_grad():
        found = part(x, None, context(layout(5), causal, observer=recorder))[0]
        q, k, v = heads(part.query_key_value, x[0], (12, 12, 12), (3, 3, 3))
    (weights,) = recorder.by_site.values()
    for i in range(5):
        given = []
        for h in range(3):
            powers = [math.exp(float(q[h, i] @ k[h, j]) / 2) if sees(i, j, causal) else 0.0 for j in range(5)]
            shares = torch.tensor(powers, dtype=torch.float64) / (math.exp(sinks[h]) + sum(powers))
            assert (weights[0, h, i] - shares).abs().max() < 1e-12
            given.append(shares @ v[h])
        with torch.no_grad():
            assert (found[i] - part.output(torch.cat(given))).abs().max() < 1e-12


class Sinks(torch.nn.Module):
    num_key_value_groups = 2

    def __init__(self, sinks: torch.Tensor) -> None:
        super().__init__()
        self.sinks = sinks


def test_is_the_sink_of_gpt_oss() -> None:
    part = attention(SinkOptions(heads=4, kv_heads=2, head_dim=3))
    part.sink.data.copy_(torch.randn(4, 1, 1))
    x = vectors(2, 5)
    with torch.no_grad():
        q, k, v = part.query_key_value(x).split((12, 6, 6), -1)
        q, k, v = (t.unflatten(-1, (-1, 3)).transpose(1, 2) for t in (q, k, v))
        hidden = torch.full((5, 5), float("-inf"), dtype=torch.float64).triu(1)
        wanted, _ = eager_attention_forward(Sinks(part.sink.flatten()), q, k, v, hidden, scaling=3**-0.5)
        found = part(x, None, context(layout(5, 5), causal=True))
        assert (found - part.output(wanted.flatten(2))).abs().max() < 1e-12


def test_softmax_one_has_nothing_to_learn_or_save() -> None:
    assert "sink" not in attention(SinkOptions(heads=3, logit="softmax_one")).state_dict()
    assert attention(SinkOptions(heads=3)).state_dict()["sink"].shape == (3, 1, 1)
