"""What a recipe is told when the parts of a recurrent stack do not suit each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.tiny_models import KIT, build, random_tokens, section

from kit import RecipeError
from kit.model.builder import ModelBuilder
from kit_attention.additive import AdditiveOptions
from kit_attention.softmax import SoftmaxOptions
from kit_recurrent.lstm import LstmOptions
from kit_recurrent.rnn import RnnOptions


def refusals(family: str, **changes: Any) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        ModelBuilder(KIT.registry).model(section(family, **changes))
    return [str(problem) for problem in caught.value.problems]


def test_a_decoder_does_not_read_backward() -> None:
    assert refusals("decoder", decoder=LstmOptions(direction="both")) == [
        "recipe: model.decoder.direction: the decoder writes from left to right, and direction: both reads what is "
        "not yet written\n    write direction: forward, or leave it out"
    ]


def test_a_memory_needs_attention() -> None:
    assert refusals("encoder-decoder", decoder=LstmOptions()) == [
        "recipe: model.decoder: the decoder needs an attention, because it reads a memory\n    add attention: ..."
    ]


def test_attention_needs_a_memory() -> None:
    assert refusals("encoder", encoder=RnnOptions(attention=SoftmaxOptions(), feed="input")) == [
        "recipe: model.encoder.attention: the encoder has no memory to attend to\n    leave attention out",
        "recipe: model.encoder.feed: feed: input gives back what attention found, and the encoder has no memory"
        "\n    leave feed out",
    ]


def test_heads_divide_what_is_remembered() -> None:
    (text,) = refusals("encoder-decoder", decoder=LstmOptions(hidden=30, attention=AdditiveOptions(heads=4)))
    assert text.startswith("recipe: model.decoder.attention.heads: 4 heads do not divide the width 30")


def test_an_attention_that_reads_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from kit_attention.softmax import SoftmaxAttention

    able = SoftmaxAttention.capabilities
    options = LstmOptions(attention=SoftmaxOptions(heads=2))
    monkeypatch.setattr(SoftmaxAttention, "capabilities", replace(able, reads_memory=False))
    assert refusals("encoder-decoder", encoder=LstmOptions(), decoder=options) == [
        "recipe: model.decoder.attention: softmax attention cannot attend to a memory, and the decoder has one"
        "\n    choose another attention"
    ]
    monkeypatch.setattr(SoftmaxAttention, "capabilities", replace(able, incremental=False))
    assert refusals("encoder-decoder", encoder=LstmOptions(), decoder=options) == [
        "recipe: model.decoder.attention: softmax attention cannot go on token by token, and the decoder writes that "
        "way\n    choose another attention"
    ]


def test_dropout_acts_between_layers_and_at_the_end_in_training_only() -> None:
    for depth in (1, 2):
        model = build("decoder", decoder=LstmOptions(depth=depth), position=None, dropout=0.5)
        target = random_tokens(6)
        assert torch.equal(model(target), model(target))
        model.decoder.dropout.p = 0.0
        stack = model.decoder.stack.train()
        assert stack.cells.dropout == (0.5 if depth == 2 else 0.0)
        share = (stack(torch.randn(4, 100, 32).double(), _layout(4, 100)) == 0).double().mean()
        assert 0.4 < share < 0.6


def _layout(rows: int, length: int) -> Any:
    from kit import BatchLayout, TokenBatch

    return BatchLayout.of(TokenBatch(torch.zeros(rows, length, dtype=torch.long)))
