"""Linear attention against a loop over pairs, its sums in chunks, and a memory that does not grow."""

from __future__ import annotations

import pytest
import torch
from models.long_sequences import (
    CLOSE,
    check_future_exactly,
    check_gradients,
    check_rows_alone,
    check_steps,
    check_watched,
    layout,
    run,
    vectors,
)
from models.model_checks import check_decoder, check_encoder
from models.single_parts import problems, single_part
from models.tiny_models import build

from kit import AttentionContext, AttentionRecorder, BatchLayout, KitError
from kit_attention.kernelized import causal_linear_sums
from kit_attention.linear import LinearOptions
from kit_mask.causal import CausalMask
from kit_mask.document import DocumentMask

from .alone import heads


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 7, 64, 150])
def test_weights_are_proportional_to_the_product_of_features(length: int, causal: bool) -> None:
    part, x = single_part(LinearOptions(heads=4, kv_heads=2)).eval(), vectors(1, length)
    q, k, v = heads(part.query_key_value, x[0], (32, 16, 16), (4, 2, 2))
    q, k = (torch.where(each > 0, each + 1, each.exp()) for each in (q, k))
    rows = []
    for at in range(length):
        last = at + 1 if causal else length
        out = []
        for head in range(4):
            weights = k[head // 2, :last] @ q[head, at]
            out.append(weights @ v[head // 2, :last] / weights.sum())
        rows.append(torch.cat(out))
    wanted = torch.stack(rows) @ part.output.weight.T + part.output.bias
    found = run(part, x, torch.ones(1, length, dtype=torch.bool), CausalMask() if causal else None)[0]
    assert (found - wanted).abs().max() < CLOSE


@pytest.mark.parametrize("size", [1, 3, 10, 64])
def test_sums_do_not_depend_on_the_size_of_chunks(size: int) -> None:
    q, k, v, known = vectors(2, 3 * 10, 4).unflatten(1, (3, 10)), vectors(2, 30, 4, 1).unflatten(1, (3, 10)), None, None
    v, known = vectors(2, 30, 5, 2).unflatten(1, (3, 10)), vectors(2, 12, 5, 3).unflatten(1, (3, 4))
    out, total = causal_linear_sums(q, k, v, known, size)
    wanted = (q @ k.transpose(-1, -2)).tril() @ v + q @ known
    assert (out - wanted).abs().max() < CLOSE
    assert (total - known - k.transpose(-1, -2) @ v).abs().max() < CLOSE


@pytest.mark.parametrize("mask", [None, CausalMask()])
@pytest.mark.parametrize("length", [9, 150])
def test_padding_anywhere_changes_nothing(length: int, mask: CausalMask | None) -> None:
    part = single_part(LinearOptions(heads=4, kv_heads=2)).eval()
    check_rows_alone(part, length, mask)
    check_watched(part, length, mask)
    check_gradients(part, length, mask)


def test_the_future_changes_no_bit_of_the_past() -> None:
    check_future_exactly(single_part(LinearOptions(heads=4)).eval(), 200, CausalMask())


def test_pieces_give_what_the_whole_gives() -> None:
    check_steps(single_part(LinearOptions(heads=4, kv_heads=2)).eval(), 21, CausalMask())
    check_steps(single_part(LinearOptions(heads=4)).eval(), 150, CausalMask())


@torch.no_grad()
def test_what_is_remembered_does_not_grow_and_a_watcher_is_told_why() -> None:
    part, sizes = single_part(LinearOptions(heads=4)).eval(), []
    state, read = part.start(), None
    for at in range(5):
        new = BatchLayout((2, 1), torch.device("cpu"), offset=at)
        read = new if read is None else read.join(new)
        recorder = AttentionRecorder()
        part(vectors(2, 1, seed=at), None, AttentionContext(new, read, CausalMask(), observer=recorder), state)
        sizes.append(state.bytes)
        assert not recorder.by_site and "sum" in next(iter(recorder.unseen.values()))
    assert sizes == [2 * 4 * 8 * 9 * 8] * 5


def test_a_query_that_sees_nothing_gives_nothing() -> None:
    part = single_part(LinearOptions(heads=4, bias=False)).eval()
    x = vectors(1, 3).requires_grad_()
    place = layout(torch.zeros(1, 3, dtype=torch.bool))
    out = part(x, None, AttentionContext(place, place))
    assert (out == 0).all()
    out.sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()


def test_half_precision_keeps_its_sums_whole() -> None:
    part = single_part(LinearOptions(heads=4)).float().eval()
    x = vectors(1, 2000).float()
    place = layout(torch.ones(1, 2000, dtype=torch.bool))
    exact = part(x, None, AttentionContext(place, place, CausalMask()))
    with torch.autocast("cpu", torch.bfloat16):
        close = part(x, None, AttentionContext(place, place, CausalMask()))
    assert (close.float() - exact).abs().max() < 0.03 * exact.abs().max()


def test_another_mask_is_never_left_out_silently() -> None:
    part = single_part(LinearOptions(heads=4)).eval()
    with pytest.raises(KitError, match="honours no mask but causal"):
        run(part, vectors(1, 3), torch.ones(1, 3, dtype=torch.bool), DocumentMask())


def test_models_with_it_hold_what_models_promise() -> None:
    layer = {"attention": LinearOptions(heads=4, kv_heads=2)}
    check_decoder(build("decoder", layer))
    check_decoder(build("encoder-decoder", layer))
    check_encoder(build("encoder", layer))


def test_there_are_no_weights_to_drop() -> None:
    (problem,) = problems(LinearOptions(heads=4, dropout=0.1))
    assert "dropout" in problem.message and problem.path[-1] == "dropout"
