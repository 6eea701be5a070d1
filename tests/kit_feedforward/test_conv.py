"""The convolution against torch's own, with padding on either side, step by step, and in whole models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from models.model_checks import check_decoder, check_encoder
from models.single_parts import attention_context, problems, single_part
from models.tiny_models import build, random_tokens
from torch import Tensor

from kit import AttentionContext, BatchLayout, TokenBatch
from kit_feedforward.conv import ConvOptions


def conv(kernel: int, causal: bool) -> Any:
    part = single_part(ConvOptions(kernel=kernel, ffn_multiplier=2), causal, width=6)
    with torch.no_grad():
        part.up.bias.normal_()
    return part.eval()


def reference(part: Any, x_LD: Tensor, causal: bool) -> Tensor:
    """One text, by torch's convolution over zeros at its ends."""
    kernel = part.options.kernel
    ends = (kernel - 1, 0) if causal else (kernel // 2, kernel // 2)
    hidden = F.pad(part.up(x_LD).T[None], ends)
    mixed = F.conv1d(hidden, part.taps[:, None], groups=part.taps.shape[0])[0].T
    result: Tensor = part.down(F.gelu(mixed))
    return result


@pytest.mark.parametrize(("kernel", "causal"), [(1, False), (3, False), (7, False), (1, True), (2, True), (4, True)])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_against_torch_with_padding(kernel: int, causal: bool, left: bool, packed: bool) -> None:
    part, tokens = conv(kernel, causal), random_tokens(5, 9, 1, 3, left=left)
    assert tokens.padding_mask is not None
    x = torch.randn(4, 9, 6, dtype=torch.float64)
    context = attention_context(tokens, packed=packed)
    found = part(context.queries.unpad(x), context)
    found = context.queries.pad(found)
    for row, length in enumerate((5, 9, 1, 3)):
        real = tokens.padding_mask[row]
        assert int(real.sum()) == length
        assert (found[row, real] - reference(part, x[row, real], causal)).abs().max() < 1e-12


def test_padding_between_tokens_is_stepped_over() -> None:
    part = conv(3, causal=True)
    padding_mask = torch.tensor([[True, False, True, False, False, True, True]])
    x = torch.randn(1, 7, 6, dtype=torch.float64)
    found = part(x, attention_context(TokenBatch(torch.ones(1, 7, dtype=torch.long), padding_mask)))
    assert (found[padding_mask] - reference(part, x[padding_mask], causal=True)).abs().max() < 1e-12


def test_hidden_tokens_have_no_influence() -> None:
    part, tokens = conv(3, causal=False), random_tokens(4, 7)
    x = torch.randn(2, 7, 6, dtype=torch.float64, requires_grad=True)
    found = part(x, attention_context(tokens))[tokens.padding_mask]
    found.sum().backward()
    assert x.grad is not None and tokens.padding_mask is not None
    assert x.grad[~tokens.padding_mask].abs().max() == 0
    assert x.grad[tokens.padding_mask].abs().min() > 0


@pytest.mark.parametrize("kernel", [1, 2, 5])
@pytest.mark.parametrize("chunks", [(1,) * 8, (3, 4, 1), (8,)], ids=str)
def test_steps_with_invalid_tokens_in_some_rows(kernel: int, chunks: tuple[int, ...]) -> None:
    """Tokens that are not real enter no state, wherever in a chunk they stand."""
    part = conv(kernel, causal=True)
    torch.manual_seed(3)
    padding_mask = torch.rand(5, 8) < 0.6
    x = torch.randn(5, 8, 6, dtype=torch.float64)
    state, start = part.start(), 0
    found = []
    for size in chunks:
        piece = slice(start, start + size)
        layout = BatchLayout.of(TokenBatch(torch.ones(5, size, dtype=torch.long), padding_mask[:, piece]))
        found.append(part(x[:, piece], AttentionContext(layout, layout), state))
        start += size
    joined = torch.cat(found, 1)
    for row in range(5):
        if padding_mask[row].any():
            wanted = reference(part, x[row, padding_mask[row]], causal=True)
            assert (joined[row, padding_mask[row]] - wanted).abs().max() < 1e-12
    assert state.bytes == 5 * (kernel - 1) * 12 * 8


def test_state_follows_chosen_rows() -> None:
    part = conv(4, causal=True)
    x = torch.randn(3, 6, 6, dtype=torch.float64)
    state = part.start()
    part(x[:, :4], attention_context(torch.ones(3, 4, dtype=torch.long)), state)
    rows = torch.tensor([2, 2, 0])
    state.reorder(rows)
    found = part(x[rows, 4:], attention_context(torch.ones(3, 2, dtype=torch.long)), state)
    for row, chosen in enumerate(rows.tolist()):
        assert (found[row] - reference(part, x[chosen], causal=True)[4:]).abs().max() < 1e-12


def test_bad_kernels_are_refused() -> None:
    (problem,) = problems(ConvOptions(kernel=4))
    assert problem.path[-1] == "kernel"
    assert problem.hint == "take 3 or 5"
    assert not problems(ConvOptions(kernel=4), causal=True)
    assert problems(ConvOptions(kernel=65), length=64)


@pytest.mark.parametrize("kernel", [3, 5])
def test_whole_model(kernel: int) -> None:
    layer = {"feedforward": ConvOptions(kernel=kernel, ffn_multiplier=1)}
    check_encoder(build("encoder", layer))
    check_decoder(build("decoder", layer))
    check_decoder(build("encoder-decoder", layer))
