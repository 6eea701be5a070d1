"""Dropout from random words: the share it drops, what it keeps, its gradient, and that a seed repeats it."""

from __future__ import annotations

import pytest
import torch

from kit import drop


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
def test_the_share_and_the_mean_are_right(chance: float) -> None:
    torch.manual_seed(0)
    count = 1_000_003  # not a multiple of the four numbers that a word serves
    out = drop(torch.ones(count), chance)
    spread = (chance * (1 - chance) / count) ** 0.5
    assert abs((out == 0).double().mean().item() - chance) < 5 * spread + 1 / 65536
    assert out.max().item() == pytest.approx(1 / (1 - chance), rel=1e-3)
    assert out.unique().numel() == 2


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    kept = (drop(torch.ones(1_000_000), 0.5) > 0).double() - 0.5
    for distance in (1, 2, 3, 4, 8, 512):
        together = (kept[distance:] * kept[:-distance]).mean().item()
        assert abs(together) < 5 * 0.25 / 1000


def test_gradients_pass_where_numbers_did() -> None:
    x = torch.randn(7, 33, requires_grad=True)
    out = drop(x, 0.3)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient * x, out)


def test_a_seed_repeats_it_and_calls_differ() -> None:
    x = torch.ones(10_000)
    torch.manual_seed(3)
    first, second = drop(x, 0.5), drop(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(drop(x, 0.5), first)
    assert 0.4 < (first == second).double().mean().item() < 0.6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_scale_is_not_rounded_in_half_precision(dtype: torch.dtype) -> None:
    """0.1 drops 6,554 of 65,536: 0.9 of the sum stays only if the scale is exact, which bfloat16's 1.109 is not."""
    torch.manual_seed(0)
    out = drop(torch.full((100_000,), 3.0, dtype=dtype), 0.1)
    kept = out[out != 0]
    assert kept.double().unique().tolist() == [torch.tensor(3.0 * 65536 / 58982, dtype=torch.float64).to(dtype).item()]


def test_outside_training_nothing_happens() -> None:
    x = torch.randn(5)
    assert drop(x, 0.5, training=False) is x
    assert drop(x, 0.0) is x
