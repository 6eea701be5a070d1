"""A graph gives what its function gives, changes leaves as it does, and knows what it does not hold for."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from kit.generation.compiled_graph import CompiledGraph

pytestmark = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="there is no C++ compiler here"
)


@pytest.fixture(scope="module")
def layer() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 4).requires_grad_(False)


@pytest.fixture(scope="module")
def graph(layer: nn.Linear) -> CompiledGraph:
    def step(x: Tensor, buffer: Tensor, length: int, again: int) -> list[Any]:
        if buffer.shape[0] < length + x.shape[0]:
            raise ValueError("no capacity")
        buffer[length : length + x.shape[0]] = layer(x)
        return [buffer[: length + x.shape[0]].sum(0), length + x.shape[0], again * 2]

    with torch.no_grad():
        return CompiledGraph(step, [torch.randn(3, 4), torch.zeros(16, 4), 2, 2], [0, 1, 2, 2], cpu=True)


def test_it_gives_what_its_function_gives_for_other_sizes(graph: CompiledGraph, layer: nn.Linear) -> None:
    x, buffer = torch.randn(5, 4), torch.zeros(40, 4)
    leaves = [x, buffer, 7, 7]
    assert graph.fits(leaves)
    total, length, twice = graph(leaves)
    assert torch.allclose(total, layer(x).sum(0), atol=1e-5) and (length, twice) == (12, 14)
    assert torch.allclose(buffer[7:12], layer(x), atol=1e-5) and not buffer[:7].any() and not buffer[12:].any()


def test_it_knows_what_it_does_not_hold_for(graph: CompiledGraph) -> None:
    x, buffer = torch.randn(3, 4), torch.zeros(16, 4)
    assert graph.fits([x, buffer, 2, 2])
    assert not graph.fits([x, buffer, 14, 14]), "no capacity"
    assert not graph.fits([x, buffer, 2, 3]), "integers that were equal"
    assert not graph.fits([torch.randn(3, 5), buffer, 2, 2]), "another width"
    assert not graph.fits([torch.randn(1, 4), buffer, 2, 2]), "a size that was more than 1"
    assert not graph.fits([torch.randn(4, 3).t(), buffer, 2, 2]), "another order of strides"
    assert not graph.fits([x, torch.zeros(16, 9)[:, :4], 2, 2]), "not contiguous"
    assert graph.mutated == [1]


def test_a_branch_on_a_size_of_one_is_not_taken_for_others() -> None:
    def step(x: Tensor, wide: Tensor) -> list[Any]:
        return [x * (2 if x.shape[0] == 1 else 3) + wide.sum()]

    with torch.no_grad():
        several = CompiledGraph(step, [torch.randn(3, 4), torch.randn(8, 20)[:, :5]], [0, 1], cpu=True)
        one = CompiledGraph(step, [torch.randn(1, 4), torch.randn(8, 20)[:, :5]], [0, 1], cpu=True)
        wide = torch.randn(9, 33)[:, :6]
        for rows, right, wrong in ((1, one, several), (2, several, one), (7, several, one)):
            x = torch.randn(rows, 4)
            assert right.fits([x, wide]) and not wrong.fits([x, wide])
            assert torch.allclose(right([x, wide])[0], step(x, wide)[0], atol=1e-5)
        assert not several.fits([torch.randn(3, 4), torch.randn(6, 9).t()]), "columns that became rows"


@pytest.mark.parametrize("bias", [True, False])
def test_layers_of_texts_hold_for_other_lengths(bias: bool) -> None:
    layer = nn.Linear(4, 5, bias).requires_grad_(False)
    with torch.no_grad():
        graph = CompiledGraph(lambda x: [layer(x)], [torch.randn(2, 7, 4)], [0], cpu=True)
    for shape in ((2, 9, 4), (3, 2, 4)):
        x = torch.randn(shape)
        assert graph.fits([x]) and torch.allclose(graph([x])[0], layer(x), atol=1e-5)


def test_a_number_that_depends_on_what_a_tensor_holds_is_refused() -> None:
    with torch.no_grad(), pytest.raises(ValueError, match="an integer depends on the values of a tensor"):
        CompiledGraph(lambda x: [x + 1, x.sum().item()], [torch.arange(4)], [0], cpu=True)


def test_weights_are_those_of_the_module(graph: CompiledGraph, layer: nn.Linear) -> None:
    x = torch.randn(3, 4)
    before = graph([x, torch.zeros(16, 4), 2, 2])[0]
    layer.weight.mul_(2)
    after = graph([x, torch.zeros(16, 4), 2, 2])[0]
    assert torch.allclose(after, layer(x).sum(0), atol=1e-5) and not torch.allclose(before, after)
    layer.weight.div_(2)
