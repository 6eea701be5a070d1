"""A window against a loop over pairs, and everything that blocks, padding and a rolling memory could get wrong."""

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
from models.tiny_models import build, random_tokens

from kit import AttentionContext, AttentionRecorder, BatchLayout, Options
from kit_attention.softmax import SoftmaxOptions
from kit_attention.window import WindowOptions
from kit_mask.causal import CausalMask
from kit_mask.document import DocumentMask
from kit_mask.window import WindowMask
from kit_position.alibi import AlibiOptions
from kit_position.cope import CopeOptions
from kit_position.none import NoneOptions
from kit_position.rotary import RotaryOptions
from kit_position.shaw import ShawOptions
from kit_position.t5 import T5Options

from .alone import heads

SIZES = [1, 2, 64, 65, 70]
MASKS = [None, CausalMask()]
POSITIONS = [RotaryOptions(), AlibiOptions(direction="symmetric"), T5Options(), ShawOptions(farthest=9), CopeOptions()]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_query_takes_the_values_of_its_window(size: int, causal: bool) -> None:
    part, length = single_part(WindowOptions(heads=2, kv_heads=1, size=size)).eval(), 150
    x = vectors(1, length)
    q, k, v = heads(part.query_key_value, x[0], (32, 16, 16), (2, 1, 1))
    rows = []
    for at in range(length):
        seen = range(max(0, at - size + 1), at + 1 if causal else min(length, at + size))
        weights = torch.stack([(q[:, at] * k[0, other]).sum(-1) / 4 for other in seen]).softmax(0)
        rows.append(sum(weights[n][:, None] * v[0, other] for n, other in enumerate(seen)).flatten())
    wanted = torch.stack(rows) @ part.output.weight.T + part.output.bias
    found = run(part, x, torch.ones(1, length, dtype=torch.bool), CausalMask() if causal else None)[0]
    assert (found - wanted).abs().max() < CLOSE


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("size", SIZES)
def test_padding_anywhere_changes_nothing(size: int, mask: CausalMask | None) -> None:
    part = single_part(WindowOptions(heads=4, kv_heads=2, size=size)).eval()
    check_rows_alone(part, 200, mask)
    weights = check_watched(part, 200, mask)
    assert (weights.count_nonzero(-1) <= (size if mask else 2 * size - 1)).all()
    check_gradients(part, 200, mask)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", POSITIONS, ids=lambda options: options.use)
def test_positions_work_in_blocks(options: Options, mask: CausalMask | None) -> None:
    part = single_part(WindowOptions(heads=4, size=20), length=300).eval()
    position = single_part(options, length=300)
    check_rows_alone(part, 200, mask, position)
    check_watched(part, 200, mask, position)
    if mask is not None:
        check_steps(part, 24, mask, position)


@pytest.mark.parametrize("size", SIZES)
def test_the_future_changes_no_bit_of_the_past(size: int) -> None:
    check_future_exactly(single_part(WindowOptions(heads=4, size=size)).eval(), 260, CausalMask())


@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_pieces_give_what_the_whole_gives(size: int) -> None:
    check_steps(single_part(WindowOptions(heads=4, kv_heads=2, size=size)).eval(), 21, CausalMask())


def test_a_long_piece_after_a_remembered_one_works_in_blocks() -> None:
    part = single_part(WindowOptions(heads=4, size=6)).eval()
    check_steps(part, 300, CausalMask())


@torch.no_grad()
def test_what_is_remembered_does_not_grow() -> None:
    part, state, read, mask = single_part(WindowOptions(heads=4, size=5)).eval(), None, None, CausalMask()
    state, sizes = part.start(), []
    for at in range(30):
        new = BatchLayout((2, 1), torch.device("cpu"), offset=at)
        read = new if read is None else read.join(new)
        recorder = AttentionRecorder()
        part(vectors(2, 1, seed=at), None, AttentionContext(new, read, mask, observer=recorder), state)
        sizes.append(state.bytes)
        (weights,) = recorder.by_site.values()
        assert weights.shape == (2, 4, 1, at + 1)
        assert (weights[..., : max(0, at - 4)] == 0).all() and (weights[..., max(0, at - 4) :] > 0).all()
    assert sizes[4:] == [sizes[4]] * 26


@torch.no_grad()
def test_masks_that_need_facts_are_honoured_in_blocks() -> None:
    part, length = single_part(WindowOptions(heads=4, size=30)).eval(), 230
    x, real = vectors(2, length), torch.ones(2, length, dtype=torch.bool)
    documents = torch.stack([torch.arange(length) // 90, torch.arange(length) // 17])
    found = run(part, x, real, DocumentMask() & CausalMask(), features={"document": documents})
    for row, first, last in ((0, 90, 180), (1, 17, 34), (1, 34, 51)):
        alone = run(part, x[row : row + 1, first:last], real[:1, first:last], CausalMask())[0]
        assert (found[row, first:last] - alone).abs().max() < CLOSE


def test_weights_are_dropped_in_training_only() -> None:
    part, x = single_part(WindowOptions(heads=4, size=9, dropout=0.5)), vectors(1, 300)
    real = torch.ones(1, 300, dtype=torch.bool)
    assert not torch.equal(run(part, x, real), run(part, x, real))
    assert torch.equal(run(part.eval(), x, real), run(part, x, real))


def test_gradients_are_right() -> None:
    part = single_part(WindowOptions(heads=1, size=3), width=2).eval()
    place = layout(torch.arange(140)[None] < 135)
    x = vectors(1, 140, 2).requires_grad_()
    inputs, directions = (x,), torch.randn(1, 140, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda y: (part(y, None, AttentionContext(place, place, CausalMask())) * directions)[:, :135].sum(),
        inputs,
        fast_mode=True,
    )


@pytest.mark.parametrize("mask", MASKS)
def test_a_text_of_several_stretches_equals_a_dense_mask_in_values_and_gradients(mask: CausalMask | None) -> None:
    part = single_part(WindowOptions(heads=2, size=70), width=4).eval()
    dense = single_part(SoftmaxOptions(heads=2), width=4).eval()
    dense.load_state_dict(part.state_dict())
    near = WindowMask(WindowMask.options_type.model_validate({"use": "window", "size": 70}))
    real = torch.arange(2100)[None] < torch.tensor([[2100], [1500]])
    found = []
    for each, seen in ((part, mask), (dense, near if mask is None else near & mask)):
        x = vectors(2, 2100, 4).requires_grad_()
        out = run(each, x, real, seen) * real[..., None]
        out.square().sum().backward()
        found.append((out.detach(), x.grad))
    assert all((ours - theirs).abs().max() < CLOSE for ours, theirs in zip(*found, strict=True))


def test_models_with_it_hold_what_models_promise() -> None:
    layer = {"attention": WindowOptions(heads=4, kv_heads=2, size=3), "position": NoneOptions()}
    check_decoder(build("decoder", layer))
    check_encoder(build("encoder", layer))
    rotary = build("decoder", {**layer, "position": RotaryOptions()})
    check_decoder(rotary)
    assert rotary(target=random_tokens(1)).isfinite().all()


def test_a_window_longer_than_the_text_is_a_mistake() -> None:
    assert not problems(WindowOptions(heads=4, size=64), length=64)
    (problem,) = problems(WindowOptions(heads=4, size=65), length=64)
    assert "65" in problem.message and "64" in problem.message and problem.path[-1] == "size"
