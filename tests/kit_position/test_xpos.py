"""Fading rotary positions against x-transformers."""

from __future__ import annotations

import torch
from models.single_parts import problems, single_part
from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

from kit_position.rotary import RotaryOptions
from kit_position.xpos import XposOptions

AT = torch.arange(40)[None]


def test_scores_equal_x_transformers() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 4, 40, 8), torch.randn(2, 4, 40, 8)
    freqs, scale = RotaryEmbedding(8, use_xpos=True).forward_from_seq_len(40)
    wanted = apply_rotary_pos_emb(q, freqs, scale) @ apply_rotary_pos_emb(k, freqs, scale**-1).mT
    part = single_part(XposOptions(), causal=True)
    found = part.rotate(q, AT, "query") @ part.rotate(k, AT, "key").mT
    assert (found - wanted).abs().max() < 1e-4


def test_fades_as_the_formula_says() -> None:
    """A pair of ones loses its decay to the power of distance over reach, beside what turning does."""
    fading, turning = single_part(XposOptions(reach=10), causal=True), single_part(RotaryOptions(layout="interleaved"))
    q = torch.zeros(1, 1, 40, 8, dtype=torch.float64)
    q[..., 4:6] = 1
    scores = fading.rotate(q, AT, "query") @ fading.rotate(q, AT, "key").mT
    plain = turning.rotate(q, AT, "query") @ turning.rotate(q, AT, "key").mT
    distance = (AT.T - AT).double()
    decay = (4 / 8 + 0.4) / 1.4
    assert (scores - plain * decay ** (distance / 10)).abs().max() < 1e-10


def test_layouts_differ_by_a_permutation() -> None:
    x = torch.randn(1, 2, 40, 8, dtype=torch.float64)
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    half = single_part(XposOptions(layout="half"), causal=True).rotate(x, AT, "key")
    woven = single_part(XposOptions(), causal=True).rotate(x[..., order], AT, "key")
    assert (half[..., order] - woven).abs().max() < 1e-13


def test_only_where_the_future_is_hidden() -> None:
    assert not problems(XposOptions(), causal=True)
    (problem,) = problems(XposOptions())
    assert "encoder" in problem.message
    (problem,) = problems(XposOptions(), causal=True, head_dim=5)
    assert "odd" in problem.message
