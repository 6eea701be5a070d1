"""Attention of a few queries is softmax attention, whatever the sizes, the mask, and however keys lie."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kit.kernels.cpp import decode

pytestmark = pytest.mark.usefixtures("native")

NAN, HIDDEN = float("nan"), float("-inf")
KEYS = [1, 5, 15, 16, 17, 33, 80]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def by_column(k: Tensor) -> Tensor:
    return k.transpose(2, 3).contiguous().transpose(2, 3)


def in_a_buffer(x: Tensor) -> Tensor:
    """The same numbers as part of more, the rest of which is not a number."""
    rows, kv_heads, keys, width = x.shape
    room = torch.full((rows + 1, kv_heads + 1, keys + 30, width + 3), NAN)
    room[1:, :kv_heads, 7 : 7 + keys, 2 : 2 + width] = x
    return room[1:, :kv_heads, 7 : 7 + keys, 2 : 2 + width]


def columns_in_a_buffer(k: Tensor) -> Tensor:
    return in_a_buffer(k.transpose(2, 3)).transpose(2, 3)


LAYINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "by row": lambda k: k,
    "by column": by_column,
    "by row in a buffer": in_a_buffer,
    "by column in a buffer": columns_in_a_buffer,
    "tokens before heads": lambda k: k.transpose(1, 2).contiguous().transpose(1, 2),
    "every other number": lambda k: torch.stack([k, k * NAN], 4).flatten(3)[..., ::2],
}


def truth(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    mask = None if mask is None else mask.double()
    given = (each.double() for each in (q, k, v))
    return F.scaled_dot_product_attention(*given, attn_mask=mask, scale=scale, enable_gqa=True)


def masks(rows: int, heads: int, queries: int, keys: int) -> dict[str, Tensor | None]:
    """What is added to scores; every query sees the first key."""
    found: dict[str, Tensor | None] = {"none": None}
    for name, shape in {
        "of rows": (rows, 1, queries, keys),
        "of heads": (1, heads, queries, keys),
        "for all": (1, 1, 1, keys),
        "of all": (rows, heads, queries, keys),
    }.items():
        added = numbers(*shape, seed=keys)
        found[name] = added.masked_fill(added < -0.5, HIDDEN)
        found[name][..., 0] = 0.5  # type: ignore[index]
    return found


@pytest.mark.parametrize("laid", LAYINGS)
@pytest.mark.parametrize("widths", [(64, 64), (20, 12), (12, 20), (16, 32), (7, 100)], ids=str)
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (5, 1)])
def test_attention_is_that_of_float64(heads: int, kv_heads: int, widths: tuple[int, int], laid: str) -> None:
    lay, far = LAYINGS[laid], 0.0
    for keys in KEYS:
        for queries in (1, 2, 5, 13):
            q, k = numbers(3, heads, queries, widths[0]), numbers(3, kv_heads, keys, widths[0], seed=1)
            v, laid_q = numbers(3, kv_heads, keys, widths[1], seed=2), in_a_buffer(q) if keys % 2 else q
            laid_v = v if laid == "by row" else in_a_buffer(v)
            for mask in masks(3, heads, queries, keys).values():
                found = decode.decode_attention(laid_q, lay(k), laid_v, mask, 0.3)
                assert found.shape == (3, heads, queries, widths[1])
                far = max(far, float((found - truth(q, k, v, mask, 0.3)).abs().max()))
    assert far < 5e-6


@pytest.mark.parametrize("lay", [by_column, in_a_buffer])
@pytest.mark.parametrize("queries", range(1, 14))
def test_any_few_queries(queries: int, lay: Callable[[Tensor], Tensor]) -> None:
    q, k, v = numbers(2, 4, queries, 64), numbers(2, 4, 40, 64, seed=1), numbers(2, 4, 40, 64, seed=2)
    assert (decode.decode_attention(q, lay(k), v, None, 0.125) - truth(q, k, v, None, 0.125)).abs().max() < 5e-6


@pytest.mark.parametrize("scale", [0.0, 1e-3, 30.0])
def test_weights_are_exact_where_they_are_even_and_where_one_has_all(scale: float) -> None:
    q, k, v = numbers(2, 4, 3, 64), numbers(2, 4, 40, 64, seed=1), numbers(2, 4, 40, 64, seed=2)
    assert (decode.decode_attention(q, k, v, None, scale) - truth(q, k, v, None, scale)).abs().max() < 1e-5


def test_no_keys_give_zeros_and_no_rows_nothing() -> None:
    q = numbers(2, 4, 3, 20)
    for mask in (None, torch.zeros(2, 1, 3, 0)):
        found = decode.decode_attention(q, numbers(2, 2, 0, 20), numbers(2, 2, 0, 12), mask, 1.0)
        assert found.shape == (2, 4, 3, 12) and not found.any()
    assert decode.decode_attention(q[:0], numbers(0, 2, 5, 20), numbers(0, 2, 5, 12), None, 1.0).shape == (0, 4, 3, 12)
    assert decode.decode_attention(q[:, :, :0], numbers(2, 2, 5, 20), numbers(2, 2, 5, 12), None, 1.0).shape == (
        2,
        4,
        0,
        12,
    )


@pytest.mark.parametrize("lay", [by_column, in_a_buffer])
@pytest.mark.parametrize("keys", [9, 16, 40])
def test_who_sees_nothing_gets_zeros_and_others_what_they_see(keys: int, lay: Callable[[Tensor], Tensor]) -> None:
    q, k, v = numbers(2, 4, 5, 64), numbers(2, 4, keys, 64, seed=1), numbers(2, 4, keys, 80, seed=2)
    mask = torch.zeros(2, 1, 5, keys)
    mask[0, 0, 3], mask[1] = HIDDEN, HIDDEN
    found, wanted = decode.decode_attention(q, lay(k), v, mask, 0.125), truth(q, k, v, mask, 0.125)
    assert not found[0, :, 3].any() and not found[1].any()
    seeing = [0, 1, 2, 4]
    assert (found[0, :, seeing] - wanted[0, :, seeing]).abs().max() < 5e-6 and found[0, :, seeing].any()


@pytest.mark.parametrize("lay", [by_column, in_a_buffer])
@pytest.mark.parametrize("width", [12, 64, 80])
@pytest.mark.parametrize("keys", [9, 16, 40])
def test_what_nobody_sees_is_not_read(keys: int, width: int, lay: Callable[[Tensor], Tensor]) -> None:
    q, k, v = numbers(2, 4, 7, 20), numbers(2, 2, keys, 20, seed=1), numbers(2, 2, keys, width, seed=2)
    mask = torch.zeros(2, 1, 7, keys)
    mask[..., [2, keys - 1]] = HIDDEN
    wanted = decode.decode_attention(q, lay(k), v, mask, 0.2)
    k[:, :, [2, keys - 1]], v[:, :, [2, keys - 1]] = NAN, NAN
    assert torch.equal(decode.decode_attention(q, lay(k), v, mask, 0.2), wanted) and bool(wanted.isfinite().all())


@pytest.mark.parametrize("lay", [by_column, in_a_buffer])
@pytest.mark.parametrize("width", [12, 64, 80])
@pytest.mark.parametrize("places", [[2], [8], list(range(9)), list(range(8))])
def test_what_is_seen_and_is_not_a_number_stays_that(
    places: list[int], width: int, lay: Callable[[Tensor], Tensor]
) -> None:
    # A model whose numbers have gone to pieces does not go on as if nothing were seen.
    q, k, v = numbers(2, 4, 7, 20), numbers(2, 2, 20, 20, seed=1), numbers(2, 2, 20, width, seed=2)
    mask = torch.zeros(2, 1, 7, 20)
    mask[..., 9:] = HIDDEN
    broken = k.clone()
    broken[:, :, places] = NAN
    assert decode.decode_attention(q, lay(broken), v, mask, 0.2).isnan().all()
    v[:, :, places] = NAN
    assert decode.decode_attention(q, lay(k), v, mask, 0.2).isnan().all()


def test_a_mask_that_hides_a_key_changes_the_result() -> None:
    q, k, v = numbers(1, 4, 3, 64), numbers(1, 4, 20, 64, seed=1), numbers(1, 4, 20, 64, seed=2)
    for key in (0, 15, 16, 19):
        mask = torch.zeros(1, 1, 3, 20)
        mask[..., 1, key] = HIDDEN
        changed = (
            (decode.decode_attention(q, k, v, mask, 0.125) - decode.decode_attention(q, k, v, None, 0.125))
            .abs()
            .amax((0, 1, 3))
        )
        assert changed[1] > 1e-4 and not changed[[0, 2]].any()


def test_heads_lie_side_by_side() -> None:
    found = decode.decode_attention(numbers(2, 4, 3, 20), numbers(2, 2, 9, 20), numbers(2, 2, 9, 12), None, 1.0)
    assert found.transpose(1, 2).is_contiguous()
    assert found.transpose(1, 2).flatten(2).data_ptr() == found.data_ptr()


@pytest.mark.parametrize("queries", [0, 1, 5])
def test_the_shape_that_a_compiler_is_told(queries: int) -> None:
    given = (numbers(2, 4, queries, 20), numbers(2, 2, 9, 20), numbers(2, 2, 9, 12), torch.zeros(1, 1, queries, 9), 1.0)
    checks = ("test_schema", "test_faketensor")
    found = torch.library.opcheck(torch.ops.kit.decode_attention.default, given, test_utils=checks)
    assert set(found.values()) == {"SUCCESS"}


@torch.no_grad()
def test_what_is_taken_and_what_is_left_to_torch() -> None:
    q, k = numbers(2, 4, decode.MAX_QUERIES, 20), numbers(2, 2, 100, 20)
    assert decode.supports_attention(q, k, k) and decode.supports_attention(q, by_column(k), k)
    more = numbers(2, 4, decode.MAX_QUERIES + 1, 20)
    assert not decode.supports_attention(more, k, k)
    assert not decode.supports_attention(q.double(), k.double(), k.double()) and not decode.supports_attention(
        q, k.double(), k
    )
    assert not decode.supports_attention(q.to("meta"), k.to("meta"), k.to("meta"))
    with torch.enable_grad():
        assert not decode.supports_attention(q, k, k)


def test_what_does_not_fit_is_refused() -> None:
    q, k, v = numbers(2, 4, 3, 20), numbers(2, 2, 9, 20), numbers(2, 2, 9, 12)
    for given in (
        (q, k[:1], v, None),
        (q, k, v[:, :, 1:], None),
        (q, k[..., 1:], v, None),
        (q[:, :3], k, v, None),
        (q, k[:, :0], v[:, :0], None),
        (q, k.double(), v, None),
        (q, k, v, torch.zeros(2, 1, 3, 8)),
        (q, k, v, torch.zeros(3, 9)),
        (q, k, v, torch.zeros(2, 1, 3, 9, dtype=torch.bool)),
    ):
        with pytest.raises(RuntimeError, match=r"float32|do not match|a mask of"):
            decode.decode_attention(*given, 1.0)  # type: ignore[arg-type]


def test_threads_do_not_change_the_result() -> None:
    q, k, v = numbers(8, 4, 5, 64), numbers(8, 4, 80, 64, seed=1), numbers(8, 4, 80, 64, seed=2)
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(decode.decode_attention(q, k, v, None, 0.125))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
