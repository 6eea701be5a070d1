"""Talking heads against a loop over pairs and heads."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kit import Position
from kit_attention.softmax import SoftmaxOptions
from kit_attention.talking_heads import TalkingHeadsOptions
from kit_position.none import NoneOptions

from .alone import attention, build_context, context, heads, layout, sees, vectors


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
def test_mixes_scores_before_and_weights_after_the_softmax(causal: bool) -> None:
    part = attention(TalkingHeadsOptions(heads=3))
    before, after = torch.randn(3, 3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)
    part.mix_scores.data, part.mix_weights.data = before, after
    x = vectors(1, 4)
    with torch.no_grad():
        found = part(x, None, context(layout(4), causal))[0]
        q, k, v = heads(part.query_key_value, x[0], (12, 12, 12), (3, 3, 3))
        for i in range(4):
            scores = torch.full((3, 4), float("-inf"), dtype=torch.float64)
            for h in range(3):
                for j in range(4):
                    if sees(i, j, causal):
                        scores[h, j] = sum(before[g, h] * (q[g, i] @ k[g, j]) / 2 for g in range(3))
            weights = scores.softmax(-1)
            given = [sum(after[g, h] * weights[g] for g in range(3)) @ v[h] for h in range(3)]
            assert (found[i] - part.output(torch.cat(given))).abs().max() < 1e-12


class Slopes(Position):
    """Another slope for each head."""

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        distance = (q_at_BQ[:, None, :, None] - k_at_BK[:, None, None, :]).abs()
        return -distance * torch.tensor([0.1, 1.0, 5.0], dtype=torch.float64).view(3, 1, 1)


def test_begins_as_plain_attention() -> None:
    talking, plain = attention(TalkingHeadsOptions(heads=3)), attention(SoftmaxOptions(heads=3))
    plain.load_state_dict({name: value for name, value in talking.state_dict().items() if "mix" not in name})
    slopes = Slopes(NoneOptions(), plain.dims, build_context())
    where = context(layout(5, 2), position=slopes)
    assert (talking(vectors(2, 5), None, where) - plain(vectors(2, 5), None, where)).abs().max() < 1e-12


def test_what_a_position_adds_stays_with_its_head() -> None:
    talking, plain = attention(TalkingHeadsOptions(heads=3)), attention(SoftmaxOptions(heads=3))
    plain.load_state_dict({name: value for name, value in talking.state_dict().items() if "mix" not in name})
    # Scores of content are switched off on both sides, so the slopes alone are left.
    talking.mix_scores.data.zero_()
    plain.query_key_value.weight.data[:12].zero_()
    plain.query_key_value.bias.data[:12].zero_()
    where = context(layout(5), position=Slopes(NoneOptions(), plain.dims, build_context()))
    assert (talking(vectors(1, 5), None, where) - plain(vectors(1, 5), None, where)).abs().max() < 1e-12
