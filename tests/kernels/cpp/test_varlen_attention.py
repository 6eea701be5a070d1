"""Attention within packed texts by C++ of our own is attention, forth and back."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kit.kernels.cpp import varlen_attention as varlen
from kit.kernels.cpp.varlen_attention import HeadConfig, varlen_attention

pytestmark = [
    pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="this processor has no AVX-512"),
    pytest.mark.usefixtures("made_here"),
]

LENGTHS = [5, 1, 16, 0, 17, 33, 70]
OTHER_LENGTHS = [3, 40, 16, 2, 1, 32, 90]
SHAPES = [(8, 8, 64), (4, 2, 32), (6, 1, 48), (2, 2, 80), (1, 1, 16)]


@pytest.fixture(scope="module")
def made_here(native: None) -> None:
    """The operations are there."""
    assert varlen.LIBRARY.load()


def starts(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0)


def plain(q: Tensor, kv: Tensor, q_lengths: list[int], k_lengths: list[int], heads: HeadConfig) -> Tensor:
    """Text by text, head by head, in double precision."""
    width, given = q.shape[1] // heads.heads, []
    for q_text, kv_text in zip(q.double().split(q_lengths), kv.double().split(k_lengths), strict=True):
        q_HQE = q_text.view(-1, heads.heads, width).transpose(0, 1)
        k_GKE, v_GKE = kv_text.reshape(-1, 2, heads.kv_heads, width).permute(1, 2, 0, 3)
        share = heads.heads // heads.kv_heads
        dots_HQK = q_HQE @ k_GKE.repeat_interleave(share, 0).transpose(1, 2) * heads.scale
        if heads.causal:
            dots_HQK = dots_HQK.masked_fill(torch.ones(dots_HQK.shape[1:], dtype=torch.bool).triu(1), float("-inf"))
        out_HQE = dots_HQK.softmax(-1) @ v_GKE.repeat_interleave(share, 0)
        given.append(out_HQE.transpose(0, 1).flatten(1))
    return torch.cat(given)


def errors(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> float:
    return max(float((one - other).detach().abs().max()) for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_own_keys_with_their_gradients(shape: tuple[int, int, int], causal: bool) -> None:
    heads, kv_heads, width = shape
    how = HeadConfig(heads, kv_heads, 0.2, causal)
    torch.manual_seed(0)
    x_ND = torch.randn(sum(LENGTHS), (heads + 2 * kv_heads) * width, requires_grad=True)
    d_ND = torch.randn(sum(LENGTHS), heads * width)
    out_ND = varlen_attention(x_ND, None, (starts(LENGTHS), starts(LENGTHS)), how)
    q, kv = x_ND.split([heads * width, 2 * kv_heads * width], 1)
    wide_ND = plain(q, kv, LENGTHS, LENGTHS, how)
    assert errors((out_ND,), (wide_ND,)) < 1e-5
    assert errors(torch.autograd.grad(out_ND, x_ND, d_ND), torch.autograd.grad(wide_ND, x_ND, d_ND.double())) < 1e-5


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_keys_of_another_side_with_their_gradients(shape: tuple[int, int, int]) -> None:
    heads, kv_heads, width = shape
    how = HeadConfig(heads, kv_heads, width**-0.5, causal=False)
    torch.manual_seed(0)
    q = torch.randn(sum(LENGTHS), heads * width, requires_grad=True)
    kv = torch.randn(sum(OTHER_LENGTHS), 2 * kv_heads * width, requires_grad=True)
    d_ND = torch.randn_like(q).t().contiguous().t()  # gradients may come turned
    out_ND = varlen_attention(q, kv, (starts(LENGTHS), starts(OTHER_LENGTHS)), how)
    wide_ND = plain(q, kv, LENGTHS, OTHER_LENGTHS, how)
    assert errors((out_ND,), (wide_ND,)) < 1e-5
    found = torch.autograd.grad(out_ND, [q, kv], d_ND)
    assert errors(found, torch.autograd.grad(wide_ND, [q, kv], d_ND.double())) < 1e-5


def test_the_measure_notices_that_a_text_sees_its_neighbour() -> None:
    how = HeadConfig(2, 2, 0.25, causal=False)
    x_ND = torch.randn(20, 6 * 16)
    out_ND = varlen_attention(x_ND, None, (starts([9, 11]), starts([9, 11])), how)
    q, kv = x_ND.split([32, 64], 1)
    assert errors((out_ND,), (plain(q, kv, [10, 10], [10, 10], how),)) > 1e-2


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    before = torch.get_num_threads()
    x_ND = torch.randn(sum(LENGTHS), 12 * 32, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def run(count: int) -> tuple[Tensor, Tensor]:
        torch.set_num_threads(count)
        out_ND = varlen_attention(x_ND, None, (starts(LENGTHS), starts(LENGTHS)), HeadConfig(4, 4, 0.2, causal=True))
        return out_ND, *torch.autograd.grad(out_ND.square().sum(), x_ND)

    try:
        assert all(torch.equal(one, other) for one, other in zip(run(1), run(threads), strict=True))
    finally:
        torch.set_num_threads(before)


def test_numbers_that_are_not_finite_are_not_lost() -> None:
    x_ND = torch.randn(12, 3 * 16)
    x_ND[5, 3] = float("nan")
    x_ND[9, 20] = float("inf")
    bounds, how = starts([4, 4, 4]), HeadConfig(1, 1, 0.25, causal=False)
    out_ND = varlen_attention(x_ND, None, (bounds, bounds), how)
    wide_ND = plain(*x_ND.split([16, 32], 1), [4, 4, 4], [4, 4, 4], how)
    assert out_ND[:4].isfinite().all() and out_ND[5].isnan().all() and out_ND[8:].isnan().any()
    assert torch.equal(out_ND.isnan(), wide_ND.isnan())


def test_what_does_not_fit_is_refused() -> None:
    x_ND, how = torch.randn(12, 3 * 16), HeadConfig(1, 1, 0.25, causal=False)
    fits = starts([4, 8])
    for bounds in (starts([4, 9]), starts([4, 7]), fits.flip(0), fits.int(), fits[1:]):
        with pytest.raises(RuntimeError, match=r"tokens|wanted"):
            varlen_attention(x_ND, None, (bounds, bounds), how)
    with pytest.raises(RuntimeError, match="as many sequences"):
        varlen_attention(x_ND[:, :16], x_ND[:, 16:], (fits, starts([4, 4, 4])), how)
    with pytest.raises(RuntimeError, match="without keys"):
        varlen_attention(x_ND[:, :16], x_ND[:, 16:], (fits, starts([12, 0])), how)
    with pytest.raises(RuntimeError, match="multiple of"):
        varlen_attention(torch.randn(12, 3 * 12), None, (fits, fits), how)
    with pytest.raises(RuntimeError, match="float32"):
        varlen_attention(x_ND.double(), None, (fits, fits), how)
