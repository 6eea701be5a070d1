"""Gated attention: softmax attention times a sigmoid of the token itself, before heads are mixed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kit_attention.gated import GatedOptions
from kit_attention.softmax import SoftmaxOptions

from .alone import attention, context, layout, vectors


@pytest.mark.parametrize("gate", ["element", "head"])
@pytest.mark.parametrize("memory", [None, 9], ids=["text", "memory"])
def test_gates_what_each_head_gives(gate: Any, memory: int | None) -> None:
    part = attention(GatedOptions(heads=3, value_head_dim=5, gate=gate), memory=memory)
    plain = attention(SoftmaxOptions(heads=3, value_head_dim=5), memory=memory)
    shared = {name: value for name, value in part.state_dict().items() if not name.startswith("gate")}
    plain.load_state_dict(shared)
    x = vectors(2, 4)
    read = None if memory is None else vectors(2, 6, 9, seed=1)
    where = context(layout(4, 3)) if memory is None else context(layout(4, 3), keys=layout(6, 5))
    found = part(x, read, where)
    # With an identity for an output, the plain part shows what its heads give.
    given = torch.nn.Linear(15, 15, bias=False, dtype=torch.float64)
    torch.nn.init.eye_(given.weight)
    output, plain.output = plain.output, given
    opened = 1 / (1 + torch.exp(-(x @ part.gate.weight.T + part.gate.bias)))
    if gate == "head":
        opened = torch.stack([opened[..., n // 5] for n in range(15)], -1)
    wanted = output(plain(x, read, where) * opened)
    assert (found - wanted).abs().max() < 1e-12
    assert part.gate.weight.shape == ((15 if gate == "element" else 3), 12)


def test_a_closed_gate_lets_nothing_through() -> None:
    part = attention(GatedOptions(heads=3, output_bias=False))
    with torch.no_grad():
        part.gate.bias.fill_(-1e4)
    assert part(vectors(1, 4), None, context(layout(4))).abs().max() == 0
