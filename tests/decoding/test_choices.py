"""Choices are log-probabilities, the best of a wide vocabulary are found, and arranged weights are the same weights."""

from __future__ import annotations

import pytest
import torch
from builders import build, texts

from kit import Choices, arrange
from kit.decoding.choices import top


@pytest.mark.parametrize("size", [3, 4096, 4100, 50_001])
@pytest.mark.parametrize("count", [1, 10])
def test_top_is_topk(size: int, count: int) -> None:
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(7, size, generator=generator)
    x[1, :] = float("-inf")
    x[1, -1] = 0.0
    x[2, 5:] = float("-inf") if size > 5 else 0.0
    wanted = x.topk(min(count, size), 1)
    values, places = top(x, min(count, size))
    assert torch.equal(values, wanted.values)
    assert torch.equal(x.gather(1, places), values)
    assert all(len(set(row)) == len(row) for row in places.tolist())


def test_choices_are_normalised() -> None:
    scores = torch.randn(3, 6, dtype=torch.float64)
    choices = Choices(scores, scores.logsumexp(1, keepdim=True))
    truth = scores.log_softmax(1)
    assert torch.allclose(choices.log_probabilities(), truth)
    assert torch.allclose(choices.best()[0], truth.amax(1))
    assert torch.allclose(choices.top(9)[0], truth.sort(1, descending=True).values)
    token = torch.tensor([0, 5, 2])
    assert torch.allclose(choices.of(token), truth[torch.arange(3), token])
    assert torch.equal(
        choices.select(torch.tensor([2, 2])).of(token[:2]), choices.of(token)[[2, 2]] * 0 + truth[2, [0, 5]]
    )


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
def test_arranged_weights_are_the_same_weights(family: str) -> None:
    model = build(family)
    given = {"target": texts(4, 6)} if family == "decoder" else {"source": texts(3, 8), "target": texts(4, 6)}
    before, weights = model(**given), {name: value.clone() for name, value in model.state_dict().items()}
    arrange(model)
    assert (model(**given) - before).abs().max() < 1e-10
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert not model.decoder.stack.layers[0].attention.output.weight.is_contiguous()
