"""Linear biases against BLOOM and MPT."""

from __future__ import annotations

import pytest
import torch
from models.single_parts import problems, single_part
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

from kit_position.alibi import AlibiOptions, slopes

AT = torch.arange(20)[None]


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 7, 8, 12, 16, 20])
def test_slopes_equal_bloom_and_mpt(heads: int) -> None:
    bloom = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    mpt = -build_mpt_alibi_tensor(heads, 2)[:, 0, 0]
    found = torch.tensor(slopes(heads))
    assert (found - bloom).abs().max() < 2e-7
    assert (found - mpt).abs().max() < 2e-7


def test_weights_equal_bloom_under_a_causal_mask() -> None:
    """BLOOM counts from the start of the text; softmax does not see the difference."""
    torch.manual_seed(0)
    scores = torch.randn(1, 6, 20, 20, dtype=torch.float64)
    hidden = torch.ones(20, 20).triu(1).bool()
    bloom = build_alibi_tensor(torch.ones(1, 20), 6, torch.float64).view(1, 6, 1, 20)
    wanted = (scores + bloom).masked_fill(hidden, -torch.inf).softmax(-1)
    for direction in ("symmetric", "causal"):
        bias = single_part(AlibiOptions(direction=direction), causal=True, heads=6).bias(AT, AT)
        found = (scores + bias).masked_fill(hidden, -torch.inf).softmax(-1)
        assert (found - wanted).abs().max() < 1e-6


def test_directions() -> None:
    symmetric = single_part(AlibiOptions()).bias(AT, AT)
    causal = single_part(AlibiOptions(direction="causal"), causal=True).bias(AT, AT)
    slope = 2.0**-4
    assert symmetric.dtype == torch.float64
    assert symmetric[0, 1, 7, 9] == symmetric[0, 1, 9, 7] == -2 * slope
    assert causal[0, 1, 9, 7] == -2 * slope
    assert causal[0, 1, 7, 9] == 2 * slope


def test_causal_direction_is_refused_where_the_future_is_seen() -> None:
    assert not problems(AlibiOptions(direction="causal"), causal=True)
    (problem,) = problems(AlibiOptions(direction="causal"))
    assert problem.path[-1] == "direction"
    assert problem.hint == "write direction: symmetric"


def test_half_precision_keeps_distances_apart() -> None:
    bias = single_part(AlibiOptions()).bfloat16().bias(torch.tensor([[1000]]), torch.tensor([[1, 2]]))
    assert bias[0, 0, 0, 0] != bias[0, 0, 0, 1]
