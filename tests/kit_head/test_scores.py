"""Heads that score the vocabulary, against their formulas, and in whole models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.model_checks import check_decoder, check_encoder
from models.tiny_models import KIT, build, section

from kit import RecipeError, TokenBatch
from kit.model.builder import ModelBuilder
from kit_head.language import LanguageOptions
from kit_head.masked import MaskedOptions
from kit_norm.layer import LayerOptions
from kit_norm.rms import RmsOptions


def moved(model: Any) -> Any:
    """Biases and norms away from where they begin, so that a lost one shows."""
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def last_vectors(model: Any, tokens: TokenBatch) -> torch.Tensor:
    """What the head is given."""
    seen = []
    handle = model.head.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    model(tokens)
    handle.remove()
    return seen[0]


TOKENS = TokenBatch(torch.arange(1, 8)[None])


@pytest.mark.parametrize("tie", ["output", "none"])
@pytest.mark.parametrize(
    ("options", "factor", "logit_softcap"),
    [
        (LanguageOptions(), 1.0, None),
        (LanguageOptions(bias=True, scale=0.25), 0.25, None),
        (LanguageOptions(bias=True, scale="width", logit_softcap=0.5), 32**-0.5, 0.5),
        (LanguageOptions(logit_softcap=2.0), 1.0, 2.0),
    ],
    ids=["plain", "scaled", "by width and capped", "capped"],
)
def test_language(options: LanguageOptions, factor: float, logit_softcap: float | None, tie: Any) -> None:
    model = moved(build("decoder", head=options, tie=tie))
    table = model.decoder.embedding.table if tie == "output" else model.head.projection
    wanted = last_vectors(model, TOKENS) @ (factor * table).T
    wanted = wanted + (model.head.bias if options.bias else 0)
    if logit_softcap is not None:
        wanted = logit_softcap * torch.tanh(wanted / logit_softcap)
    assert (model(TOKENS) - wanted).abs().max() < 1e-12


@pytest.mark.parametrize("tie", ["output", "none"])
def test_masked(tie: Any) -> None:
    model = moved(build("encoder", head=MaskedOptions(norm=LayerOptions(epsilon=0.1)), tie=tie))
    head = model.head
    x = last_vectors(model, TOKENS) @ head.dense.weight.T + head.dense.bias
    x = x * 0.5 * (1 + torch.erf(x / 2**0.5))
    x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 0.1).sqrt()
    x = x * head.norm.weight + head.norm.bias
    table = model.encoder.embedding.table if tie == "output" else head.projection
    assert (model(TOKENS) - (x @ table.T + head.bias)).abs().max() < 1e-12


def test_the_norm_is_the_models_unless_one_is_named() -> None:
    assert build("encoder", head=MaskedOptions(), norm=RmsOptions()).head.norm.name() == "rms"
    assert build("encoder", head=MaskedOptions(norm=LayerOptions()), norm=RmsOptions()).head.norm.name() == "layer"


def test_no_norm_at_all() -> None:
    options = section("encoder", {"norm": LayerOptions()}, head=MaskedOptions(), norm=None)
    with pytest.raises(RecipeError, match=r"model\.head: no norm is named here or for the model"):
        ModelBuilder(KIT.registry).model(options)


@pytest.mark.parametrize("tie", ["output", "none"])
def test_whole_models(tie: Any) -> None:
    check_encoder(build("encoder", head=MaskedOptions(), tie=tie))
    check_decoder(build("decoder", head=LanguageOptions(scale="width", logit_softcap=2.0, bias=True), tie=tie))
