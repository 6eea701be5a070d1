"""A few rows times a stored matrix are the product, whatever the sizes and however the rows lie."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kit.kernels.cpp import decode
from kit.kernels.decoding import PrepackedLinear

pytestmark = pytest.mark.usefixtures("native")

ROWS = [*range(1, 15), 31, 160]
SIZES = [(7, 1000), (24, 16), (70, 100), (1024, 900), (64, 1), (1, 64), (129, 33)]
"""Numbers out and in."""


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return decode.gemm_prepacked(x, decode.prepack_weight(weight), bias, weight.shape[0])


def off(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> float:
    """How far from the product in float64, by the length of a row in and a row of the matrix."""
    found = product(x, weight, bias)
    wanted = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert found.shape == wanted.shape and found.dtype == torch.float32 and found.is_contiguous()
    return float((found - wanted).abs().max() / weight.shape[1] ** 0.5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_are_those_of_float64(size: tuple[int, int], bias: bool) -> None:
    weight, added = numbers(*size), numbers(size[0], seed=1) if bias else None
    assert max(off(numbers(rows, size[1], seed=rows), weight, added) for rows in ROWS) < 1e-5


@pytest.mark.parametrize("rows", [1, 5, 31])
def test_rows_may_lie_anyhow(rows: int) -> None:
    weight, bias = numbers(70, 100), numbers(70)
    wide = torch.full((rows, 300), float("nan"))
    wide[:, 100:200] = numbers(rows, 100)
    ways = {
        "apart": wide[:, 100:200],
        "by column": numbers(100, rows).t(),
        "every other": numbers(rows, 200)[:, ::2],
        "one for all": numbers(1, 100).expand(rows, 100),
        "one number for all": numbers(rows, 1).expand(rows, 100),
        "in axes": numbers(100, 2, rows).permute(2, 1, 0),
        "a vector": numbers(100),
    }
    assert {name: off(x, weight, bias) < 1e-5 for name, x in ways.items()} == dict.fromkeys(ways, True)
    assert off(ways["apart"], weight, numbers(1).expand(70)) < 1e-5
    assert off(ways["apart"], numbers(100, 70).t(), bias) < 1e-5


def test_no_rows_give_no_rows() -> None:
    assert product(numbers(0, 100), numbers(70, 100)).shape == (0, 70)
    assert product(numbers(3, 0, 100), numbers(70, 100)).shape == (3, 0, 70)


@pytest.mark.parametrize("place", [(0, 0), (63, 5), (64, 99), (69, 50)], ids=str)
def test_every_number_of_a_matrix_counts(place: tuple[int, int]) -> None:
    x, weight = numbers(5, 100), numbers(70, 100)
    before = product(x, weight)
    weight[place] += 1.0
    changed = product(x, weight) - before
    assert torch.allclose(changed[:, place[0]], x[:, place[1]], atol=1e-5)
    changed[:, place[0]] = 0.0
    assert not changed.any()


def test_what_does_not_fit_is_refused() -> None:
    stored = decode.prepack_weight(numbers(70, 100))
    for x, bias, out in (
        (numbers(3, 99), None, 70),
        (numbers(3, 100), numbers(69), 70),
        (numbers(3, 100), None, 700),
        (numbers(3, 100).double(), None, 70),
        (numbers(3, 100), numbers(70).double(), 70),
    ):
        with pytest.raises(RuntimeError, match=r"wanted: float32|no product"):
            decode.gemm_prepacked(x, stored, bias, out)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_the_shape_that_a_compiler_is_told(rows: int) -> None:
    given = (numbers(rows, 200)[:, ::2], decode.prepack_weight(numbers(70, 100)), numbers(70), 70)
    checks = ("test_schema", "test_faketensor")
    found = torch.library.opcheck(torch.ops.kit.gemm_prepacked.default, given, test_utils=checks)
    assert set(found.values()) == {"SUCCESS"}


def test_threads_do_not_change_the_product() -> None:
    x, weight, before = numbers(5, 512), numbers(4000, 512), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(product(x, weight))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_an_arranged_layer_leaves_slopes_and_exports_to_torch() -> None:
    layer = torch.nn.Linear(100, 70)
    arranged, x = PrepackedLinear(layer.weight, layer.bias), numbers(3, 100).requires_grad_()
    assert arranged.backend == "native"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (slope,) = torch.autograd.grad(arranged(x).square().sum(), x)
    (wanted,) = torch.autograd.grad(layer(x).square().sum(), x)
    assert (slope - wanted).abs().max() < 1e-4
    exported = torch.export.export(arranged, (numbers(3, 100),)).graph.nodes
    called = {str(node.target) for node in exported if node.op == "call_function"}
    assert called == {"aten.linear.default"}
    assert (arranged.double()(x.double()) - layer.double()(x.double())).abs().max() < 1e-10
