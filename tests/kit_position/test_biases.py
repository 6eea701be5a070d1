"""The learned functions of distance (KERPLE, FIRE) and the vectors of distance (Shaw, CoPE), against slow loops."""

from __future__ import annotations

import math

import pytest
import torch
from models.single_parts import attention_context, problems, single_part
from models.tiny_models import random_tokens
from x_transformers.x_transformers import CoPE

from kit import TokenBatch
from kit_mask.causal import CausalMask
from kit_mask.window import WindowMask, WindowOptions
from kit_position.cope import CopeOptions
from kit_position.fire import FireOptions
from kit_position.kerple import KerpleOptions
from kit_position.shaw import ShawOptions

AT = torch.arange(9)[None]


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_kerple(kernel: str) -> None:
    part = single_part(KerpleOptions(kernel=kernel))
    found = part.bias(AT, AT)
    for head in range(4):
        a, raw = math.exp(part.weight[head].item()), part.shape[head].item()
        for q in range(9):
            for k in range(9):
                d = abs(q - k)
                if kernel == "log":
                    wanted = -a * math.log(1 + math.exp(raw) * d)
                else:
                    wanted = -a * d ** (2 / (1 + math.exp(-raw)))
                assert found[0, head, q, k].item() == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_kerple_begins_in_its_range(kernel: str) -> None:
    part = single_part(KerpleOptions(kernel=kernel), heads=100)
    a = part.weight.exp()
    b = part.shape.exp() if kernel == "log" else 2 * part.shape.sigmoid()
    assert a.min() > 0 and a.max() < 2
    assert b.min() > 0 and b.max() < 2
    part.bias(AT, AT).sum().backward()
    assert part.shape.grad.isfinite().all()


def test_fire() -> None:
    part = single_part(FireOptions(hidden=5, threshold=4))
    with torch.no_grad():
        part.steepness.fill_(0.7)
        part.threshold.fill_(1.25)
    found = part.bias(AT, AT)
    for q in range(9):
        for k in range(9):
            far = max(q, k, 1.25 * 4)
            share = math.log(1 + 0.7 * abs(q - k)) / math.log(1 + 0.7 * far)
            hidden = (part.network[0].weight[:, 0] * share + part.network[0].bias).clamp(min=0)
            wanted = part.network[2].weight @ hidden + part.network[2].bias
            assert (found[0, :, q, k] - wanted).abs().max() < 1e-12


def test_fire_measures_against_the_text_so_far() -> None:
    """Twice the distance at twice the position is nearly the same, however far out: that is the point of it."""
    part = single_part(FireOptions(threshold=1))
    near, far = (part.bias(torch.tensor([[n]]), torch.tensor([[0]])) for n in (10_000, 1_000_000))
    assert (near - far).abs().max() < 1e-12


@pytest.mark.parametrize("causal", [False, True])
def test_shaw(causal: bool) -> None:
    part = single_part(ShawOptions(farthest=3), causal)
    q = torch.randn(2, 4, 9, 8, dtype=torch.float64)
    found = part.content_bias(q, q, attention_context(random_tokens(9, 9)))
    assert part.table.shape[0] == (4 if causal else 7)
    for i in range(9):
        for j in range(9):
            distance = max(-3, min(j - i, 0 if causal else 3))
            wanted = q[:, :, i] @ part.table[distance + 3] / 8**0.5
            assert (found[:, :, i, j] - wanted).abs().max() < 1e-12


def cope_loop(part: object, q: torch.Tensor, k: torch.Tensor, allowed: torch.Tensor, last: int) -> torch.Tensor:
    """Position by position, as the paper's equations 4 and 5 say."""
    table = part.table  # type: ignore[attr-defined]
    out = torch.zeros(*q.shape[:3], k.shape[2], dtype=q.dtype)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in out.shape)).tolist():
        gates = [
            torch.sigmoid(q[b, h, i] @ k[b, h, t] / 8**0.5) if allowed[b, i, t] else torch.tensor(0.0)
            for t in range(j, k.shape[2])
        ]
        at = min(float(sum(gates)), last)
        low = math.floor(at)
        high = min(low + 1, last)
        vector = table[low] * (1 - (at - low)) + table[high] * (at - low)
        out[b, h, i, j] = q[b, h, i] @ vector
    return out


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("left", [False, True])
def test_cope_counts_only_what_is_seen(size: int | None, left: bool) -> None:
    part = single_part(CopeOptions(positions=3), causal=True, heads=2)
    tokens = random_tokens(6, 4, left=left)
    mask = CausalMask() if size is None else WindowMask(WindowOptions(size=size, direction="back"))
    context = attention_context(tokens, mask)
    q, k = (torch.randn(2, 2, 6, 8, dtype=torch.float64) for _ in range(2))
    assert context.attention_mask is not None and tokens.padding_mask is not None
    found = part.content_bias(q, k, context)
    wanted = cope_loop(part, q, k, context.attention_mask[:, 0], 2)
    assert (found - wanted).abs().max() < 1e-10


def test_cope_equals_x_transformers() -> None:
    part = single_part(CopeOptions(positions=5), causal=True)
    theirs = CoPE(8, 4, 5).double()
    theirs.pos_emb.data.copy_(part.table.data)
    q, k = (torch.randn(2, 4, 7, 8, dtype=torch.float64) for _ in range(2))
    logits = (q @ k.mT / 8**0.5).masked_fill(torch.ones(7, 7).triu(1).bool(), -1e9)
    context = attention_context(TokenBatch(torch.ones(2, 7, dtype=torch.long)), CausalMask())
    assert (part.content_bias(q, k, context) - theirs(q, logits)).abs().max() < 1e-10


def test_cope_is_refused_where_the_future_is_seen() -> None:
    assert not problems(CopeOptions(), causal=True)
    assert "counts back" in problems(CopeOptions())[0].message
