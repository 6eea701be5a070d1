"""Products by C++ of our own are the products, for odd sizes and strides; where it is missing, torch makes them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kit import linear
from kit.kernels import linear as linear_backend

pytestmark = [
    pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="this processor has no AVX-512"),
    pytest.mark.usefixtures("made_here"),
]


@pytest.fixture(scope="module")
def made_here(native: None) -> None:
    """The operations are there."""
    assert linear_backend.LIBRARY.load()


SIZES = [(1, 1, 1), (6, 64, 64), (7, 513, 65), (50, 1025, 300), (97, 17, 520), (600, 1, 70)]
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "part of a wider one": lambda x: F.pad(x, (3, 5))[:, 3 : 3 + x.shape[1]],
    "every other number": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "one row again and again": lambda x: x[:1].expand(x.shape),
    "one number again and again": lambda x: x[:1, :1].expand(x.shape),
}


def off(found: Tensor, a: Tensor, b: Tensor, bias: Tensor | None = None) -> float:
    """The largest error, as a share of what the rounding of each sum may come to."""
    wide = a.double() @ b.double()
    room = a.double().abs() @ b.double().abs() + 1e-30
    if bias is not None:
        wide, room = wide + bias.double(), room + bias.double().abs()
    assert found.shape == wide.shape and found.is_contiguous()
    return float(((found - wide).abs() / room).max())


def factors(rows: int, depth: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows + depth + columns)
    return (
        torch.randn(rows, depth, generator=generator),
        torch.randn(depth, columns, generator=generator),
        torch.randn(columns, generator=generator),
    )


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_odd_sizes_and_strides(size: tuple[int, int, int], left: str, right: str) -> None:
    a_RK, b_KC, bias_C = factors(*size)
    a_RK, b_KC = LAYOUTS[left](a_RK), LAYOUTS[right](b_KC)
    # Equal numbers are all rounded the same way: then errors add up, to at most half a last place for each.
    most = (size[1] + 1) * 2.0**-24 if "again" in left else 1e-6
    assert off(linear_backend.gemm(a_RK, b_KC), a_RK, b_KC) < most
    assert off(linear_backend.gemm(a_RK, b_KC, bias_C), a_RK, b_KC, bias_C) < most
    turned_RC, sums_R = linear_backend.gemm_tn(a_RK.t(), b_KC)
    assert off(turned_RC, a_RK, b_KC) < most
    assert off(sums_R[:, None], a_RK, torch.ones(size[1], 1)) < most


def test_the_measure_notices_a_single_wrong_number() -> None:
    a_RK, b_KC, _ = factors(50, 700, 100)
    found_RC = linear_backend.gemm(a_RK, b_KC)
    found_RC[49, 99] += 0.01
    assert off(found_RC, a_RK, b_KC) > 1e-6


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 6])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    a_RK, b_KC, bias_C = factors(131, 900, 200)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = [linear_backend.gemm(a_RK, b_KC, bias_C), *linear_backend.gemm_tn(a_RK.t().contiguous(), b_KC)]
        torch.set_num_threads(threads)
        together = [linear_backend.gemm(a_RK, b_KC, bias_C), *linear_backend.gemm_tn(a_RK.t().contiguous(), b_KC)]
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))


def test_numbers_that_are_not_finite_are_not_lost() -> None:
    a_RK, b_KC, _ = factors(20, 600, 70)
    a_RK[3, 5], a_RK[4, 599] = float("inf"), float("nan")
    found_RC = linear_backend.gemm(a_RK, b_KC)
    assert found_RC[3].isinf().all() and found_RC[4].isnan().all()
    assert found_RC[:3].isfinite().all() and found_RC[5:].isfinite().all()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(40, 8), (3, 50, 65)], ids=str)
def test_a_linear_layer_has_the_values_and_gradients_of_torchs(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], bias: bool
) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(linear_backend, "prefers_onednn", lambda: True)
    monkeypatch.setattr(linear_backend, "MIN_GEMM_MULTIPLICATIONS", 0)
    given = [torch.randn(size) for size in (shape, (24, shape[-1]), (24,))][: 3 if bias else 2]
    mine, theirs = (
        [each.clone().requires_grad_() for each in given],
        [each.double().requires_grad_() for each in given],
    )
    found, wanted = linear(*mine), F.linear(*theirs)
    back = torch.randn(wanted.shape)
    slopes = torch.autograd.grad(found, mine, back), torch.autograd.grad(wanted, theirs, back.double())
    assert (found - wanted).abs().max() < 1e-5
    for one, other in zip(*slopes, strict=True):
        assert one.shape == other.shape and (one - other).abs().max() < 1e-4


def test_a_layer_asks_for_native_products_only_where_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    made = linear_backend.gemm
    monkeypatch.setattr(linear_backend, "prefers_onednn", lambda: True)

    def noted(a_RK: Tensor, b_KC: Tensor, bias_C: Tensor | None = None) -> Tensor:
        asked.append(a_RK.shape[0])
        return made(a_RK, b_KC, bias_C)

    monkeypatch.setattr(linear_backend, "gemm", noted)
    weight_OI = torch.randn(128, 64)
    linear(torch.randn(16, 64), weight_OI)
    assert not asked
    linear(torch.randn(128, 64), weight_OI)
    assert asked == [128]


def test_without_the_library_training_goes_on() -> None:
    program = """
import torch
from kit.kernels import linear as linear_backend
linear_backend.prefers_onednn = lambda: True
layer = torch.nn.Sequential(torch.nn.Linear(256, 256))
linear_backend.use_fast_linear(layer)
layer(torch.ones(200, 256)).sum().backward()
print(linear_backend.LIBRARY.load(), bool(layer[0].weight.grad.eq(200).all()))
"""
    plain = {name: value for name, value in os.environ.items() if name not in ("KIT_NATIVE", "CXX")}
    for wanted, setting in ((True, {}), (False, {"KIT_NATIVE": "0"}), (False, {"CXX": "no-such-compiler"})):
        command, environment = [sys.executable, "-c", program], {**plain, **setting}
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert answer.stdout.split() == [str(wanted), "True"], answer.stderr


def test_what_is_no_product_is_told_by_torch() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        linear(torch.randn(64, 640), torch.randn(2048, 512))
    x, weight = torch.randn(64, 512), torch.randn(2048, 512)
    assert torch.allclose(linear(x, weight, torch.ones(1)), x @ weight.t() + 1, atol=1e-3)
    for a, b, bias in ((x, weight, None), (x, weight.t(), torch.ones(7)), (x.double(), weight.t().double(), None)):
        with pytest.raises(RuntimeError, match=r"no product|wanted|bias"):
            torch.ops.kit.gemm(a, b, bias)
    with pytest.raises(RuntimeError, match="no product"):
        torch.ops.kit.gemm_tn(x, weight)
