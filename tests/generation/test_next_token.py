"""Choices are log-probabilities, the best of a wide vocabulary are found, and arranged weights are the same weights."""

from __future__ import annotations

import pytest
import torch
from models.tiny_models import build, random_tokens

from kit import NextTokenLogProbs, prepack_weights
from kit.kernels import decoding
from kit.kernels.cpp import decode
from kit.kernels.decoding import PrepackedLinear, topk, topk_of_beams
from kit_head.language import LanguageOptions


@pytest.mark.parametrize("size", [3, 4096, 4100, 50_001])
@pytest.mark.parametrize("count", [1, 10])
def test_top_is_topk(size: int, count: int) -> None:
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(7, size, generator=generator)
    x[1, :] = float("-inf")
    x[1, -1] = 0.0
    x[2, 5:] = float("-inf") if size > 5 else 0.0
    wanted = x.topk(min(count, size), 1)
    values, places = topk(x, min(count, size))
    assert torch.equal(values, wanted.values)
    assert torch.equal(x.gather(1, places), values)
    assert all(len(set(row)) == len(row) for row in places.tolist())


@pytest.mark.parametrize("size", [3, 4096, 4100])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_top_of_texts_is_the_top_of_all_their_rows(size: int, rows: int) -> None:
    generator = torch.Generator().manual_seed(size)
    x, live = torch.randn(4 * rows, size, generator=generator), torch.randn(4, rows, dtype=torch.float64)
    live[1, 0] = float("-inf")
    every = (live[:, :, None] + x.view(4, rows, size)).flatten(1)
    total, row, token = topk_of_beams(x, live, 10)
    assert torch.equal(total, every.topk(min(10, rows * size), 1).values)
    assert torch.equal(every.gather(1, row * size + token), total)
    assert all(len(set(places)) == len(places) for places in (row * size + token).tolist())


@pytest.mark.parametrize("size", [4096, 4100])
def test_no_rows_have_no_top(size: int) -> None:
    assert topk(torch.randn(0, size), 3)[0].shape == (0, 3)


def test_choices_are_log_probabilities() -> None:
    scores = torch.randn(3, 6, dtype=torch.float64)
    choices = NextTokenLogProbs(scores.log_softmax(1))
    truth = scores.log_softmax(1)
    assert torch.allclose(choices.log_RV, truth)
    assert torch.allclose(choices.best()[0], truth.amax(1))
    assert torch.allclose(choices.top(9)[0], truth.sort(1, descending=True).values)
    token = torch.tensor([0, 5, 2])
    assert torch.allclose(choices.of(token), truth[torch.arange(3), token])
    assert torch.equal(
        choices.reorder(torch.tensor([2, 2])).of(token[:2]), choices.of(token)[[2, 2]] * 0 + truth[2, [0, 5]]
    )


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
def test_arranged_weights_are_the_same_weights(family: str) -> None:
    model = build(family)
    given = (
        {"target": random_tokens(4, 6)}
        if family == "decoder"
        else {"source": random_tokens(3, 8), "target": random_tokens(4, 6)}
    )
    before, weights = model(**given), {name: value.clone() for name, value in model.state_dict().items()}
    prepack_weights(model)
    assert (model(**given) - before).abs().max() < 1e-10
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert isinstance(model.decoder.stack.layers[0].attention.output, PrepackedLinear)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 31, 160, 161, 700])
@pytest.mark.parametrize("size", [(24, 16), (7, 1000), (1024, 900)])
@pytest.mark.parametrize("library", ["native", "mkl", "onednn", None])
def test_an_arranged_layer_gives_what_the_layer_gave(
    library: str | None, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], rows: int, bias: bool
) -> None:
    if library == "native" and not decode.LIBRARY.load():
        pytest.skip("there is no C++ compiler here")
    monkeypatch.setattr(decoding, "_prepacked_backend", lambda dtype: library)
    generator = torch.Generator().manual_seed(0)
    layer = torch.nn.Linear(size[1], size[0], bias)
    x = torch.randn(rows, 1, size[1], generator=generator)
    with torch.no_grad():
        wanted = layer.double()(x.double())
        layer.float()
        found = PrepackedLinear(layer.weight, layer.bias)(x)
    assert found.shape == (rows, 1, size[0]) and (found - wanted).abs().max() < 1e-5


def test_bent_scores_are_left_to_the_head() -> None:
    model = build("decoder", width=64, tie="none", head=LanguageOptions(logit_softcap=5.0))
    before = model(random_tokens(4, 6))
    prepack_weights(model)
    assert (model(random_tokens(4, 6)) - before).abs().max() < 1e-10
    assert model(random_tokens(4, 6)).abs().max() <= 5.0
