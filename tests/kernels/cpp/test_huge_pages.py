"""Tensors that are moved into large pages stay the tensors they were."""

from __future__ import annotations

import gc
import mmap

import pytest
import torch

from kit.kernels.allocator import place_in_huge_pages

PAGE = 2**21
SHAPES = [(1000, 700), (3,), (0, 5), (17, 33, 65), (1,), (600, 64)]


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system has no large pages")
def test_moved_tensors_have_the_same_numbers_side_by_side() -> None:
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(shape, generator=generator) for shape in SHAPES]
    given += [torch.randn(100, 90, generator=generator).t(), torch.arange(5), torch.ones(7, dtype=torch.bool)]
    given += [torch.randn(9, dtype=torch.float64), torch.randn(5).bfloat16()]
    kept, old = [each.clone() for each in given], {each.data_ptr() for each in given if each.numel()}
    moved = place_in_huge_pages(given)
    assert moved[0].data_ptr() % PAGE == 0
    assert all(each.data_ptr() % 64 == 0 and each.is_contiguous() for each in moved)
    assert not old & {each.data_ptr() for each in moved if each.numel()}
    del given
    gc.collect()
    torch.ones(1000, 700)  # where the first of them stood
    assert all(torch.equal(one, other) and one.dtype == other.dtype for one, other in zip(moved, kept, strict=True))
    for one, other in zip(moved, kept, strict=True):  # none lies over another
        assert torch.equal(one, other)
        one.zero_()


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system has no large pages")
def test_one_that_is_kept_keeps_its_memory() -> None:
    kept = place_in_huge_pages([torch.full((1000, 700), 3.0), torch.full((1000,), 5.0)])[1]
    gc.collect()
    others = [torch.zeros(1000, 700) for _ in range(3)]
    assert bool((kept == 5.0).all()) and not any(bool(each.any()) for each in others)


def test_little_is_left_where_it_is() -> None:
    given = [torch.randn(100, 64), torch.randn(7)]
    assert all(one is other for one, other in zip(place_in_huge_pages(given), given, strict=True))
    assert place_in_huge_pages([]) == []
