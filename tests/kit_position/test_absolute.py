"""Positions that are added to tokens: sinusoidal in both layouts, learned, none."""

from __future__ import annotations

import math

import pytest
import torch
from models.single_parts import problems, single_part
from torch import Tensor
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

from kit import KitError
from kit_position.learned import LearnedOptions
from kit_position.none import NoneOptions
from kit_position.sinusoidal import SinusoidalOptions

AT = torch.tensor([[0, 1, 2, 500, 99_999]])


@pytest.mark.parametrize("positions", [AT, AT % 1000, -AT], ids=["far", "near", "negative"])
@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_sinusoidal_formula(layout: str, positions: Tensor) -> None:
    part = single_part(SinusoidalOptions(layout=layout), width=8)
    part.embed(torch.zeros(1, 1, 8), positions[:, :1])  # what was seen before makes no difference
    found = part.embed(torch.zeros(1, 5, 8, dtype=torch.float64), positions)
    for n, at in enumerate(positions[0].tolist()):
        for i in range(4):
            angle = at / 10_000 ** (2 * i / 8)
            sine, cosine = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, 4 + i)
            assert found[0, n, sine].item() == pytest.approx(math.sin(angle), abs=1e-9)
            assert found[0, n, cosine].item() == pytest.approx(math.cos(angle), abs=1e-9)


def test_concatenated_layout_equals_marian() -> None:
    theirs = MarianSinusoidalPositionalEmbedding(64, 16).create_weight()
    part = single_part(SinusoidalOptions(layout="concatenated"), width=16)
    assert (part.waves(torch.arange(64)) - theirs).abs().max() < 1e-5


def test_half_precision_weights_keep_exact_waves() -> None:
    part = single_part(SinusoidalOptions())
    wanted = part.waves(AT)
    assert torch.equal(part.bfloat16().waves(AT), wanted)


def test_odd_width_is_refused() -> None:
    assert "odd" in problems(SinusoidalOptions(), width=7)[0].message


def test_learned_adds_its_row() -> None:
    part = single_part(LearnedOptions())
    x, at = torch.randn(2, 3, 32, dtype=torch.float64), torch.tensor([[0, 1, 2], [5, 0, 63]])
    assert torch.equal(part.embed(x, at), x + part.table[at])


def test_learned_refuses_texts_past_its_table() -> None:
    with pytest.raises(KitError, match="position 64, and the learned table ends at 63"):
        single_part(LearnedOptions()).embed(torch.zeros(1, 1, 32), torch.tensor([[64]]))
    assert problems(LearnedOptions(length=10))[0].path[-1] == "length"
    assert not problems(LearnedOptions(length=100))


def test_none_changes_nothing() -> None:
    part = single_part(NoneOptions())
    assert not part.locations
