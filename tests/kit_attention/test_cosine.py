"""Cosine attention against a loop over pairs, and its conventions of scale."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from kit import AttentionRecorder, Position
from kit_attention.cosine import CosineOptions
from kit_position.none import NoneOptions

from .alone import attention, build_context, context, heads, layout, sees, vectors


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("scale", ["learned", "learned_per_head", "fixed"])
def test_equals_cosines_times_the_scale(scale: Any, causal: bool) -> None:
    part = attention(CosineOptions(heads=3, scale=scale, start=5.0))
    factors = [5.0] * 3
    with torch.no_grad():
        if scale != "fixed":
            part.sharpness += torch.arange(len(part.sharpness)).view(-1, 1, 1)
            factors = [5.0, 6.0, 7.0] if scale == "learned_per_head" else factors
        x, recorder = vectors(1, 5), AttentionRecorder()
        found = part(x, None, context(layout(5), causal))[0]
        part(x, None, context(layout(5), causal, observer=recorder))
        q, k, v = heads(part.query_key_value, x[0], (12, 12, 12), (3, 3, 3))
    (weights,) = recorder.by_site.values()
    for i in range(5):
        given = []
        for h in range(3):
            powers = [
                math.exp(
                    factors[h]
                    * float(q[h, i] @ k[h, j])
                    / math.hypot(*q[h, i].tolist())
                    / math.hypot(*k[h, j].tolist())
                )
                if sees(i, j, causal)
                else 0.0
                for j in range(5)
            ]
            shares = torch.tensor(powers, dtype=torch.float64) / sum(powers)
            assert (weights[0, h, i] - shares).abs().max() < 1e-12
            given.append(shares @ v[h])
        with torch.no_grad():
            assert (found[i] - part.output(torch.cat(given))).abs().max() < 1e-12


def test_the_scale_begins_where_the_paper_says() -> None:
    assert attention(CosineOptions(heads=3), length=97).sharpness.item() == pytest.approx(math.log2(97**2 - 97))
    assert attention(CosineOptions(heads=3), length=1).sharpness.item() == pytest.approx(1.0)
    assert attention(CosineOptions(heads=3, scale="fixed", start=10.0)).sharpness == 10.0


class Louder(Position):
    """A rotation that also changes lengths, as xpos does."""

    def rotate(self, x_BHLE: Tensor, at_BL: Tensor, side: str) -> Tensor:
        return x_BHLE * (1 + at_BL[:, None, :, None])


def test_lengths_are_taken_away_before_positions_are_turned_in() -> None:
    part = attention(CosineOptions(heads=1, start=2.0))
    recorder = AttentionRecorder()
    x = vectors(1, 1).expand(1, 3, 12)
    louder = Louder(NoneOptions(), part.dims, build_context())
    part(x, None, context(layout(3), position=louder, observer=recorder))
    (weights,) = recorder.by_site.values()
    q, k = part.query_key_value(x)[0, 0].detach().split((12, 24))
    cosine = torch.cosine_similarity(q, k[:12], 0)
    steps = torch.arange(1, 4, dtype=torch.float64)
    assert (weights[0, 0] - (2 * cosine * steps[:, None] * steps[None]).softmax(-1)).abs().max() < 1e-12


def test_a_token_that_is_zero_has_finite_gradients() -> None:
    part = attention(CosineOptions(heads=3, bias=False))
    x = torch.zeros(1, 3, 12, dtype=torch.float64, requires_grad=True)
    part(x, None, context(layout(3))).sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()
