"""Longformer's pattern against a loop over pairs, and its own projections for global tokens."""

from __future__ import annotations

import pytest
import torch
from models.long_sequences import (
    CLOSE,
    check_future_exactly,
    check_gradients,
    check_rows_alone,
    check_watched,
    layout,
    run,
    vectors,
)
from models.model_checks import check_encoder
from models.single_parts import problems, single_part
from models.tiny_models import KIT, build, section
from torch import Tensor
from transformers import LongformerConfig
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from kit import AttentionContext, Options, RecipeError
from kit.model.builder import ModelBuilder
from kit_attention.global_window import GlobalWindowOptions
from kit_mask.causal import CausalMask
from kit_position.alibi import AlibiOptions
from kit_position.cope import CopeOptions
from kit_position.rotary import RotaryOptions

from .alone import heads


def _apart(part: torch.nn.Module) -> None:
    """Makes the two sets of projections differ, which begin equal."""
    torch.manual_seed(5)
    for name, parameter in part.named_parameters():
        if name.startswith("global"):
            torch.nn.init.normal_(parameter, std=0.3)


def _slowly(part: torch.nn.Module, x_LD: Tensor, size: int, first: int, separate: bool, causal: bool) -> Tensor:
    local = heads(part.query_key_value, x_LD, (32, 16, 16), (4, 2, 2))
    whole = heads(part.global_query_key_value, x_LD, (32, 16, 16), (4, 2, 2)) if separate else local
    rows = []
    for at in range(len(x_LD)):
        q, k, v = whole if at < first else local
        seen = [
            other
            for other in range(len(x_LD))
            if (at < first or other < first or abs(at - other) < size) and (other <= at or not causal)
        ]
        out = []
        for head in range(4):
            weights = (k[head // 2, seen] @ q[head, at] * 8**-0.5).softmax(0)
            out.append(weights @ v[head // 2, seen])
        rows.append(torch.cat(out))
    return torch.stack(rows) @ part.output.weight.T + part.output.bias


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("size", "first", "length"), [(1, 1, 200), (30, 3, 200), (70, 90, 250), (4, 2, 9), (3, 8, 5)])
def test_tokens_see_the_window_and_the_first(size: int, first: int, length: int, causal: bool, separate: bool) -> None:
    part = single_part(
        GlobalWindowOptions(heads=4, kv_heads=2, size=size, global_tokens=first, separate=separate), length=300
    ).eval()
    _apart(part)
    x = vectors(1, length)
    found = run(part, x, torch.ones(1, length, dtype=torch.bool), CausalMask() if causal else None)[0]
    with torch.no_grad():
        assert (found - _slowly(part, x[0], size, first, separate, causal)).abs().max() < CLOSE


def test_it_gives_what_the_published_model_gives() -> None:
    config = LongformerConfig(
        hidden_size=32, num_attention_heads=4, attention_window=[16], attention_probs_dropout_prob=0.0
    )
    torch.manual_seed(0)
    theirs = LongformerSelfAttention(config, 0).double().eval()
    ours = single_part(GlobalWindowOptions(heads=4, size=9, global_tokens=2), length=300).eval()
    for name, pieces in (
        ("query_key_value", (theirs.query, theirs.key, theirs.value)),
        ("global_query_key_value", (theirs.query_global, theirs.key_global, theirs.value_global)),
    ):
        linear = getattr(ours, name)
        linear.weight.data = torch.cat([piece.weight for piece in pieces])
        linear.bias.data = torch.cat([piece.bias for piece in pieces])
    ours.output.weight.data, ours.output.bias.data = torch.eye(32).double(), torch.zeros(32).double()
    x, real = vectors(2, 160), torch.arange(160)[None] < torch.tensor([[160], [131]])
    first = (torch.arange(160) < 2).expand(2, 160)
    # Theirs marks tokens by numbers: below zero hidden, above zero global.
    marks = torch.zeros(2, 160, dtype=torch.float64).masked_fill(~real, -10_000.0).masked_fill(first, 10_000.0)
    with torch.no_grad():
        wanted = theirs(
            x,
            attention_mask=marks,
            is_index_masked=marks < 0,
            is_index_global_attn=marks > 0,
            is_global_attn=True,
        )[0]
        # Theirs takes its softmax in float32 whatever it is given.
        assert (run(ours, x, real) - wanted)[real].abs().max() < 1e-6


@pytest.mark.parametrize("mask", [None, CausalMask()])
@pytest.mark.parametrize("length", [12, 220])
@pytest.mark.parametrize("separate", [False, True])
def test_padding_anywhere_changes_nothing(separate: bool, length: int, mask: CausalMask | None) -> None:
    options = GlobalWindowOptions(heads=4, kv_heads=2, size=20, global_tokens=3, separate=separate)
    part = single_part(options, length=300).eval()
    _apart(part)
    check_rows_alone(part, length, mask)
    check_watched(part, length, mask)
    check_gradients(part, length, mask)


@pytest.mark.parametrize(
    "options", [RotaryOptions(), AlibiOptions(direction="symmetric"), CopeOptions()], ids=lambda options: options.use
)
def test_positions_work_in_blocks(options: Options) -> None:
    part = single_part(GlobalWindowOptions(heads=4, size=20, global_tokens=2), length=300).eval()
    _apart(part)
    position = single_part(options, length=300)
    check_rows_alone(part, 200, None, position)
    check_watched(part, 200, None, position)


@pytest.mark.parametrize("first", [1, 4])
def test_under_a_causal_mask_the_future_changes_no_bit_of_the_past(first: int) -> None:
    part = single_part(GlobalWindowOptions(heads=4, size=30, global_tokens=first), length=300).eval()
    check_future_exactly(part, 260, CausalMask())


def test_both_projections_begin_equal() -> None:
    part = single_part(GlobalWindowOptions(heads=4, size=5), length=300).eval()
    same = single_part(GlobalWindowOptions(heads=4, size=5, separate=False), length=300).eval()
    x, real = vectors(1, 200), torch.ones(1, 200, dtype=torch.bool)
    assert (run(part, x, real) - run(same, x, real)).abs().max() < CLOSE


def test_gradients_are_right() -> None:
    part = single_part(GlobalWindowOptions(heads=1, size=3), width=2, length=300).eval()
    place = layout(torch.arange(140)[None] < 135)
    directions = torch.randn(1, 140, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda y: (part(y, None, AttentionContext(place, place)) * directions)[:, :135].sum(),
        (vectors(1, 140, 2).requires_grad_(),),
        fast_mode=True,
    )


def test_a_model_with_it_holds_what_models_promise() -> None:
    check_encoder(build("encoder", {"attention": GlobalWindowOptions(heads=4, size=2, global_tokens=2)}))


def test_it_is_refused_where_a_text_is_written() -> None:
    with pytest.raises(RecipeError, match="global_window attention cannot go on token by token"):
        ModelBuilder(KIT.registry).model(section("decoder", {"attention": GlobalWindowOptions(heads=4, size=2)}))


def test_sizes_past_the_text_are_mistakes() -> None:
    found = problems(GlobalWindowOptions(heads=4, size=65, global_tokens=66), length=64)
    assert [problem.path[-1] for problem in found] == ["size", "global_tokens"]
