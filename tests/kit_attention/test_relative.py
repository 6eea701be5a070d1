"""Transformer-XL's relative attention against a loop over pairs, and who it goes with."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from models.tiny_models import KIT, section
from torch import Tensor

from kit import BatchLayout, Options, Problem, TokenBatch
from kit.model.builder import ModelBuilder
from kit_attention.relative import RelativeOptions
from kit_position.alibi import AlibiOptions
from kit_position.none import NoneOptions
from kit_position.rotary import RotaryOptions
from kit_position.shaw import ShawOptions

from .alone import attention, context, heads, layout, problems, sees, vectors


def wave(distance: int, width: int) -> Tensor:
    """Sines and then cosines of one distance."""
    turns = [distance / 10_000 ** (2 * n / width) for n in range(width // 2)]
    return torch.tensor([*map(math.sin, turns), *map(math.cos, turns)], dtype=torch.float64)


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("length", [5, 40], ids=["few queries", "many queries"])
@pytest.mark.parametrize("kv_heads", [3, 1])
def test_equals_a_loop_over_pairs(causal: bool, length: int, kv_heads: int) -> None:
    """Few queries and many take the product with the waves in another order."""
    part = attention(RelativeOptions(heads=3, kv_heads=kv_heads))
    x = vectors(1, length)
    with torch.no_grad():
        found = part(x, None, context(layout(length), causal))[0]
        q, k, v = heads(part.query_key_value, x[0], (12, 4 * kv_heads, 4 * kv_heads), (3, kv_heads, kv_heads))
        for i in (0, 1, length // 2, length - 1):
            given = []
            for h in range(3):
                seen = [j for j in range(length) if sees(i, j, causal)]
                g = h * kv_heads // 3
                u, w = part.content_bias[h, 0], part.distance_bias[h, 0]
                scores = []
                for j in seen:
                    r = part.distance.weight[4 * h : 4 * h + 4] @ wave(i - j, 12)
                    scores.append(((q[h, i] + u) @ k[g, j] + (q[h, i] + w) @ r) / 2)
                given.append(torch.stack(scores).softmax(0) @ v[g][seen])
            assert (found[i] - part.output(torch.cat(given))).abs().max() < 1e-12


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
def test_only_distances_count(causal: bool) -> None:
    """A batch that numbers its tokens from a thousand on, or with gaps, is read by the differences of its numbers."""
    part = attention(RelativeOptions(heads=3))
    x = vectors(1, 5)

    def numbered(*numbers: int) -> Tensor:
        ids = torch.zeros(1, 5, dtype=torch.long)
        where = BatchLayout.of(TokenBatch(ids, features={"position": torch.tensor([numbers])}))
        with torch.no_grad():
            found: Tensor = part(x, None, context(where, causal))
        return found

    plain = part(x, None, context(layout(5), causal)).detach()
    assert (numbered(0, 1, 2, 3, 4) - plain).abs().max() < 1e-12
    assert (numbered(1000, 1001, 1002, 1003, 1004) - plain).abs().max() < 1e-12
    assert (numbered(0, 3, 6, 9, 12) - plain).abs().max() > 1e-3
    # A query that comes first in the text but has the highest number sees negative distances.
    assert numbered(4, 3, 2, 1, 0).isfinite().all()


def test_order_matters_without_any_other_position() -> None:
    part = attention(RelativeOptions(heads=3))
    x = vectors(1, 5)
    turned = part(x.flip(1), None, context(layout(5))).flip(1)
    assert (turned - part(x, None, context(layout(5)))).abs().max() > 1e-3


@pytest.mark.parametrize("position", [RotaryOptions(), AlibiOptions(), ShawOptions()], ids=lambda options: options.use)
def test_positions_of_other_attentions_are_refused(position: Options) -> None:
    found = check("decoder", {"attention": RelativeOptions(heads=4)}, position=position)
    assert any(f"and the position {position.use} does" in problem.message for problem in found)
    assert not check("decoder", {"attention": RelativeOptions(heads=4)}, position=NoneOptions())


def test_reads_no_memory() -> None:
    found = check("encoder-decoder", {"attention": RelativeOptions(heads=4)}, position=NoneOptions())
    assert any("relative attention cannot attend to a memory" in problem.message for problem in found)


def check(family: str, layer: dict[str, Any], **changes: Any) -> list[Problem]:
    return list(ModelBuilder(KIT.registry).check(section(family, layer, **changes)))


def test_an_odd_width_is_refused() -> None:
    (problem,) = problems(RelativeOptions(heads=3), width=15)
    assert "the width 15 is odd" in problem.message
