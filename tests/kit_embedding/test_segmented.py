"""Token vectors with segments: the formula, batches that do not say, packing, and numbers that are too large."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from models.model_checks import check_decoder, check_encoder
from models.tiny_models import build, random_tokens

from kit import KitError, TokenBatch
from kit_embedding.segmented import SegmentedOptions
from kit_position.none import NoneOptions


def with_segments(tokens: TokenBatch, segments: int = 3) -> TokenBatch:
    segment = torch.arange(tokens.ids.numel()).view_as(tokens.ids) % segments
    return replace(tokens, features={"segment": segment})


@pytest.mark.parametrize("scale", [False, True])
def test_the_formula(scale: bool) -> None:
    part = build(
        "encoder", embedding=SegmentedOptions(segments=3, scale=scale), position=NoneOptions()
    ).encoder.embedding
    ids, segment = torch.tensor([[4, 9, 4]]), torch.tensor([[2, 0, 1]])
    found = part.mark(part(ids), {"segment": segment})[0]
    for place, (number, kind) in enumerate(zip([4, 9, 4], [2, 0, 1], strict=True)):
        wanted = part.table[number] * (32**0.5 if scale else 1.0) + part.segments[kind]
        assert torch.equal(found[place], wanted)
    assert torch.equal(part.mark(part(ids), {}), part(ids) + part.segments[0])
    x = torch.randn(2, 32, dtype=torch.float64)
    assert torch.equal(part.project(x), x @ part.table.T)


def test_a_batch_that_does_not_say_is_in_the_first_segment() -> None:
    model = build("encoder", embedding=SegmentedOptions())
    tokens = random_tokens(5, 8)
    assert torch.equal(model(tokens), model(replace(tokens, features={"segment": torch.zeros_like(tokens.ids)})))
    assert not torch.equal(model(tokens), model(replace(tokens, features={"segment": torch.ones_like(tokens.ids)})))


@pytest.mark.parametrize("left", [False, True])
def test_segments_of_packed_tokens(left: bool) -> None:
    model = build("encoder", embedding=SegmentedOptions(segments=3))
    tokens = with_segments(random_tokens(5, 8, 2, left=left))
    assert (model(tokens, packed=True) - model(tokens)[tokens.padding_mask]).abs().max() < 1e-10


def test_segments_step_by_step() -> None:
    model = build("decoder", embedding=SegmentedOptions(segments=3))
    tokens = with_segments(random_tokens(7, 7))
    session = model.start()
    steps = [
        session.step(
            TokenBatch(tokens.ids[:, place, None], features={"segment": tokens.features["segment"][:, place, None]})
        )
        for place in range(7)
    ]
    assert (torch.cat(steps, 1) - model(tokens)).abs().max() < 1e-10


def test_a_segment_that_is_not_there() -> None:
    model = build("encoder", embedding=SegmentedOptions(segments=2))
    with pytest.raises(KitError, match=r"a token is in segment 2, and the embedding has 2, .* write segments: 3"):
        model(with_segments(random_tokens(5), segments=3))


def test_whole_models() -> None:
    check_encoder(build("encoder", embedding=SegmentedOptions()))
    check_decoder(build(embedding=SegmentedOptions(scale=True), tie="all"))
