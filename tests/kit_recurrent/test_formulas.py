"""Recurrent stacks against the formulas of the papers, written as loops over one row at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.tiny_models import build, random_tokens
from torch import Tensor

from kit import BatchLayout, EncoderOutput, TokenBatch
from kit_attention.additive import AdditiveOptions
from kit_attention.softmax import SoftmaxOptions
from kit_recurrent.gru import GruOptions
from kit_recurrent.lstm import LstmOptions
from kit_recurrent.rnn import RnnOptions

KINDS = {"rnn": RnnOptions, "lstm": LstmOptions, "gru": GruOptions}


def weights(cells: Any, layer: int, backward: bool = False) -> list[Tensor]:
    suffix = f"l{layer}" + ("_reverse" if backward else "")
    return [getattr(cells, f"{name}_{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def cell(kind: str, x: Tensor, state: tuple[Tensor, ...], matrices: list[Tensor]) -> tuple[Tensor, ...]:
    """One token through one cell, by the formulas."""
    w_in, w_hidden, b_in, b_hidden = matrices
    h = state[0]
    into, onward = w_in @ x + b_in, w_hidden @ h + b_hidden
    if kind == "rnn":
        return (torch.tanh(into + onward),)
    if kind == "gru":
        (ri, zi, ni), (rh, zh, nh) = into.chunk(3), onward.chunk(3)
        r, z = torch.sigmoid(ri + rh), torch.sigmoid(zi + zh)
        return ((1 - z) * torch.tanh(ni + r * nh) + z * h,)
    i, f, g, o = (into + onward).chunk(4)
    c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def zeros(kind: str, width: int) -> tuple[Tensor, ...]:
    return tuple(torch.zeros(width, dtype=torch.float64) for _ in range(2 if kind == "lstm" else 1))


@pytest.mark.parametrize("kind", KINDS)
def test_two_layers_in_both_directions(kind: str) -> None:
    """On texts with padding at the left, the right, in the middle, and everywhere."""
    stack = build("encoder", encoder=KINDS[kind](depth=2, hidden=12), position=None).encoder.stack
    torch.nn.init.normal_(stack.cells.bias_ih_l1)
    padding_mask = torch.tensor(
        [[0, 0, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]
    ).bool()
    x = torch.randn(5, 5, 32, dtype=torch.float64)
    for layout in (
        BatchLayout.of(TokenBatch(padding_mask.long(), padding_mask)),
        BatchLayout.of(TokenBatch(padding_mask.long(), padding_mask)).packed(),
    ):
        found = layout.pad(stack(layout.unpad(x), layout))
        for row in range(5):
            sequence = list(x[row, padding_mask[row]])
            for layer in (0, 1):
                ways = []
                for backward in (False, True):
                    state, outs = zeros(kind, 12), []
                    for token in reversed(sequence) if backward else sequence:
                        state = cell(kind, token, state, weights(stack.cells, layer, backward))
                        outs.append(state[0])
                    ways.append(outs[::-1] if backward else outs)
                sequence = [torch.cat(pair) for pair in zip(*ways, strict=True)]
            for place, wanted in zip(padding_mask[row].nonzero().flatten(), sequence, strict=True):
                assert (found[row, place] - stack.output(wanted)).abs().max() < 1e-12


def translator(**options: Any) -> tuple[Any, Tensor, Tensor, Any]:
    """A decoder stack, four target vectors, three memory vectors and how to run it on them."""
    model = build(encoder=LstmOptions(), decoder=LstmOptions(**options), position=None)
    stack = model.decoder.stack
    x, memory = torch.randn(1, 4, 32, dtype=torch.float64), torch.randn(1, 3, 32, dtype=torch.float64)
    found = stack(x, BatchLayout.of(random_tokens(4)), EncoderOutput(memory, BatchLayout.of(random_tokens(3))))
    return stack, x[0], memory[0], found[0]


def attend(attention: Any, query: Tensor, memory: Tensor, additive: bool) -> Tensor:
    """One head, by the formula."""
    q = attention.query(query)
    k, v = attention.key_value(memory).chunk(2, -1)
    scores = torch.tanh(q + k) @ attention.score[0] if additive else k @ q / q.shape[-1] ** 0.5
    return attention.output(scores.softmax(0) @ v)


def test_bahdanau() -> None:
    """c_i from s_(i-1); s_i from y_(i-1) and c_i; the first state is a projection of the memory's mean."""
    stack, x, memory, found = translator(attention=AdditiveOptions(heads=1), feed="context", hidden=20)
    first = torch.tanh(stack.first(memory.mean(0)))
    state = (first[:20], first[20:])
    for number, token in enumerate(x):
        context = attend(stack.attention, state[0], memory, additive=True)
        state = cell("lstm", torch.cat((token, context)), state, weights(stack.cells, 0))
        wanted = torch.tanh(stack.output(torch.cat((state[0], context, token))))
        assert (found[number] - wanted).abs().max() < 1e-12


@pytest.mark.parametrize("feed", ["none", "input"])
def test_luong(feed: Any) -> None:
    """What attention and the state give together goes out, and in again with the next token."""
    stack, x, memory, found = translator(attention=SoftmaxOptions(heads=1), feed=feed, begin="zeros")
    state, fed = zeros("lstm", 32), torch.zeros(32, dtype=torch.float64)
    for number, token in enumerate(x):
        state = cell("lstm", torch.cat((token, fed)) if feed == "input" else token, state, weights(stack.cells, 0))
        context = attend(stack.attention, state[0], memory, additive=False)
        fed = torch.tanh(stack.output(torch.cat((state[0], context))))
        assert (found[number] - fed).abs().max() < 1e-12


def test_an_lstm_begins_with_an_open_forget_gate() -> None:
    stack = build("decoder", decoder=LstmOptions(forget_bias=1.5), position=None).decoder.stack
    bias = stack.cells.bias_ih_l0 + stack.cells.bias_hh_l0
    assert bias.reshape(4, 32).eq(torch.tensor([0, 1.5, 0, 0])[:, None]).all()
    for gate in stack.cells.weight_hh_l0.chunk(4):
        assert (gate @ gate.T - torch.eye(32)).abs().max() < 1e-5
