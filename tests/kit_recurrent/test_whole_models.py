"""Recurrent stacks in whole models, held to what every model is held to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.model_checks import check_decoder, check_encoder
from models.tiny_models import build, random_tokens

from kit import AttentionRecorder, TokenBatch
from kit_attention.additive import AdditiveOptions
from kit_attention.softmax import SoftmaxOptions
from kit_recurrent.gru import GruOptions
from kit_recurrent.lstm import LstmOptions
from kit_recurrent.rnn import RnnOptions

KINDS = {"rnn": RnnOptions, "lstm": LstmOptions, "gru": GruOptions}
DECODERS: dict[str, dict[str, Any]] = {
    "luong": {"attention": SoftmaxOptions(heads=2)},
    "input feeding": {"attention": SoftmaxOptions(heads=1), "feed": "input", "depth": 2},
    "bahdanau": {"attention": AdditiveOptions(heads=1), "feed": "context"},
    "zeros": {"attention": AdditiveOptions(heads=4), "feed": "context", "begin": "zeros", "hidden": 20, "depth": 2},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_translators(kind: str, decoder: str) -> None:
    stack = KINDS[kind]
    model = build(encoder=stack(depth=2), decoder=stack(**DECODERS[decoder]), position=None)
    check_decoder(model)


@pytest.mark.parametrize("kind", KINDS)
def test_language_models(kind: str) -> None:
    check_decoder(build("decoder", decoder=KINDS[kind](depth=2, hidden=24), position=None))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", ["both", "forward"])
def test_readers(kind: str, direction: Any) -> None:
    check_encoder(build("encoder", encoder=KINDS[kind](depth=2, direction=direction), position=None))


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_mixed_model_and_a_source_without_tokens(decoder: str) -> None:
    """A Transformer encoder with a recurrent decoder; one source is all padding, one target too."""
    model = build(decoder=LstmOptions(**DECODERS[decoder]))
    source = TokenBatch(random_tokens(4, 4).ids, torch.tensor([[True] * 4, [False] * 4]))
    target = TokenBatch(random_tokens(3, 3, seed=1).ids, torch.tensor([[False] * 3, [True] * 3]))
    scores = model(source, target)
    assert scores.isfinite().all()
    scores.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_watcher_sees_the_attention_of_a_whole_text(decoder: str) -> None:
    model = build(encoder=LstmOptions(), decoder=LstmOptions(**DECODERS[decoder]))
    recorder = AttentionRecorder()
    model(random_tokens(3, 8), random_tokens(4, 6, seed=1), observer=recorder)
    (name,) = recorder.by_site
    depth = DECODERS[decoder].get("depth", 1)
    heads = DECODERS[decoder]["attention"].heads
    assert name == f"decoder.{depth - 1}.cross_attention"
    assert recorder.by_site[name].shape == (2, heads, 6, 8)
    assert recorder.by_site[name][0, :, :, 3:].abs().max() == 0


@pytest.mark.parametrize("decoder", DECODERS)
def test_half_precision_stays_close(decoder: str) -> None:
    model = build(encoder=LstmOptions(depth=2), decoder=LstmOptions(**DECODERS[decoder]), position=None).float()
    source, target = random_tokens(3, 8, left=True), random_tokens(4, 6, seed=1)
    wanted = model(source, target)[target.padding_mask]
    with torch.autocast("cpu", torch.bfloat16):
        scores = model(source, target)[target.padding_mask]
        packed = model(source, target, packed=True)
    scores.sum().backward()
    assert (scores - wanted).abs().max() < 0.03 * wanted.abs().max()
    assert (packed - wanted).abs().max() < 0.03 * wanted.abs().max()


@pytest.mark.parametrize("decoder", DECODERS)
def test_shapes_without_data(decoder: str) -> None:
    with torch.device("meta"):
        model = build(encoder=GruOptions(depth=2), decoder=GruOptions(**DECODERS[decoder]), position=None)
        tokens = TokenBatch(torch.zeros(2, 5, dtype=torch.long), torch.ones(2, 5, dtype=torch.bool))
        assert model(tokens, tokens).shape == (2, 5, 50)
