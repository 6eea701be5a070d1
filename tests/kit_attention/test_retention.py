"""Retention: the parallel, chunked and recurrent forms against each other and against the paper's recurrence."""

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
    run,
    vectors,
)
from models.model_checks import check_encoder, check_future, check_packing, check_padding, check_rows
from models.model_checks import check_gradients as check_model_gradients
from models.model_checks import check_steps as check_model_steps
from models.single_parts import problems, single_part
from models.tiny_models import build

from kit import KitError, Options
from kit_attention.retention import RetentionOptions
from kit_mask.causal import CausalMask
from kit_mask.document import DocumentMask
from kit_position.rotary import RotaryOptions
from kit_position.xpos import XposOptions

from .alone import heads


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 128, 300])
def test_it_is_the_recurrence_of_the_paper(length: int, causal: bool, norm: str) -> None:
    part = single_part(RetentionOptions(heads=4, kv_heads=2, value_head_dim=6, forgetting=3.0, norm=norm)).eval()
    x = vectors(1, length)
    q, k, v = heads(part.query_key_value, x[0], (32, 16, 12), (4, 2, 2))
    out = torch.zeros(length, 4, 6, dtype=torch.float64)
    for head in range(4):
        rate = 1 - 2.0 ** (-3 - head)
        for direction in (range(length), range(length - 1, -1, -1)):
            state = torch.zeros(8, 6, dtype=torch.float64)
            for at in direction:
                state = rate * state + torch.outer(k[head // 2, at], v[head // 2, at])
                out[at, head] += q[head, at] @ state * 8**-0.5
            if causal:
                break
        if not causal:
            own = (q[head] * k[head // 2]).sum(-1, keepdim=True) * v[head // 2] * 8**-0.5
            out[:, head] -= own
    if norm == "layer":
        out = (out - out.mean(-1, keepdim=True)) / (out.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    else:
        out = out / (out.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    gate = x[0] @ part.gate.weight.T + part.gate.bias
    wanted = (gate * gate.sigmoid() * out.flatten(1)) @ part.output.weight.T + part.output.bias
    found = run(part, x, torch.ones(1, length, dtype=torch.bool), CausalMask() if causal else None)[0]
    assert (found - wanted).abs().max() < CLOSE


@pytest.mark.parametrize(
    ("mask", "position"),
    # xpos is for texts that are written, so it goes with the causal mask alone.
    [(None, None), (None, RotaryOptions()), *((CausalMask(), each) for each in (None, RotaryOptions(), XposOptions()))],
)
def test_the_parallel_form_agrees_and_padding_changes_nothing(
    mask: CausalMask | None, position: Options | None
) -> None:
    part = single_part(RetentionOptions(heads=4, kv_heads=2)).eval()
    placed = None if position is None else single_part(position, causal=True, length=300)
    check_rows_alone(part, 200, mask, placed)
    check_watched(part, 200, mask, placed)


@pytest.mark.parametrize("mask", [None, CausalMask()])
def test_gradients_reach_everything(mask: CausalMask | None) -> None:
    check_gradients(single_part(RetentionOptions(heads=4, kv_heads=2)).eval(), 150, mask)


def test_the_recurrent_form_agrees() -> None:
    check_steps(single_part(RetentionOptions(heads=4, kv_heads=2)).eval(), 21, CausalMask())
    check_steps(single_part(RetentionOptions(heads=4)).eval(), 270, CausalMask())
    check_steps(single_part(RetentionOptions(heads=4)).eval(), 12, CausalMask(), single_part(RotaryOptions()))


def test_the_future_changes_no_bit_of_the_past() -> None:
    check_future_exactly(single_part(RetentionOptions(heads=4)).eval(), 300, CausalMask())


def test_heads_forget_at_rates_that_halve() -> None:
    part = single_part(RetentionOptions(heads=4)).eval()
    lost = 1 - part.log_rate_H.exp()
    assert torch.allclose(lost, torch.tensor([1 / 32, 1 / 64, 1 / 128, 1 / 256], dtype=torch.float64))


def test_another_mask_is_never_left_out_silently() -> None:
    part = single_part(RetentionOptions(heads=4)).eval()
    with pytest.raises(KitError, match="honours no mask but causal"):
        run(part, vectors(1, 3), torch.ones(1, 3, dtype=torch.bool), DocumentMask())


def test_models_with_it_hold_what_models_promise() -> None:
    layer = {"attention": RetentionOptions(heads=4, kv_heads=2, value_head_dim=12)}
    model = build("decoder", layer)
    for check in (check_padding, check_future, check_model_steps, check_rows, check_packing, check_model_gradients):
        check(model)
    check_encoder(build("encoder", layer))


def test_options_that_leave_nothing_are_mistakes() -> None:
    (problem,) = problems(RetentionOptions(heads=4, value_head_dim=1))
    assert problem.path[-1] == "norm"
    assert not problems(RetentionOptions(heads=4, value_head_dim=1, norm="rms"))
    assert problems(RetentionOptions(heads=4, dropout=0.1))[0].path[-1] == "dropout"
