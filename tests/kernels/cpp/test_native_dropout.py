"""Dropout by C++ of our own: the chance, the scale, the same choices back, a sequence that the seed decides."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kit.kernels import dropout as dropout_kernel
from kit.kernels.dropout import drop

pytestmark = pytest.mark.usefixtures("made_here")


@pytest.fixture(scope="module")
def made_here(native: None) -> None:
    """The operation is there."""
    assert dropout_kernel.LIBRARY.load()


def dropped_of(seed: int, count: int = 1 << 20, dropped: int = 6554) -> Tensor:
    return dropout_kernel.native_dropout(torch.ones(count), seed, dropped) == 0


@pytest.mark.parametrize("dropped", [1, 655, 6554, 32768, 65535])
def test_share_and_scale(dropped: int) -> None:
    left = dropout_kernel.native_dropout(torch.ones(1 << 20), 1, dropped)
    chance = dropped / 65536
    spread = (chance * (1 - chance) / (1 << 20)) ** 0.5
    assert abs(float((left == 0).double().mean()) - chance) < 5 * spread
    assert (left[left != 0] == torch.tensor(65536 / (65536 - dropped), dtype=torch.float32)).all()


def test_choices_do_not_depend_on_each_other() -> None:
    first = dropped_of(1).double()
    spread = 0.09 / (1 << 10)
    # Neighbours, words of one vector, vectors, the next block; and the same place under the next seed.
    for distance in (1, 2, 3, 4, 8, 16, 31, 32, 64, 4096, 8192):
        both = float((first[distance:] * first[:-distance]).mean())
        assert abs(both - 0.01) < 5 * spread, distance
    assert abs(float((first * dropped_of(2).double()).mean()) - 0.01) < 5 * spread


def test_the_measure_notices_choices_that_repeat() -> None:
    first = dropped_of(1).double()[:4096].repeat(256)
    assert abs(float((first[4096:] * first[:-4096]).mean()) - 0.01) > 0.05


@pytest.mark.parametrize("count", [1, 31, 32, 33, 4095, 4096, 4097, 10_000])
def test_any_count_has_the_beginning_of_the_same_sequence(count: int) -> None:
    assert torch.equal(dropped_of(3, count), dropped_of(3, 20_000)[:count])


def test_any_number_of_threads_makes_the_same_choices() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = dropped_of(4)
        torch.set_num_threads(3)
        assert torch.equal(alone, dropped_of(4))
    finally:
        torch.set_num_threads(before)


def test_gradients_are_dropped_where_numbers_were() -> None:
    x = torch.randn(50, 70, requires_grad=True)
    left = drop(x, 0.3)
    (d_x,) = torch.autograd.grad(left, x, torch.ones(70, 50).t(), create_graph=True)
    assert torch.allclose(d_x * x, left)
    assert 0.2 < float((d_x == 0).double().mean()) < 0.4


def test_torch_s_seed_decides_and_each_call_differs() -> None:
    x = torch.ones(1000)
    torch.manual_seed(5)
    first, second = drop(x, 0.5), drop(x, 0.5)
    torch.manual_seed(5)
    assert torch.equal(drop(x, 0.5), first) and not torch.equal(first, second)


def test_numbers_that_lie_elsewhere_keep_their_places() -> None:
    x = torch.arange(1.0, 201.0).view(10, 20).t()
    left = dropout_kernel.native_dropout(x, 6, 32768)
    assert ((left == 0) | (left == 2 * x)).all() and 50 < int((left == 0).sum()) < 150


def test_other_types_are_dropped_as_before() -> None:
    for dtype in (torch.float64, torch.bfloat16):
        left = drop(torch.ones(10_000, dtype=dtype), 0.5)
        assert left.dtype == dtype and 0.45 < float((left == 0).double().mean()) < 0.55
