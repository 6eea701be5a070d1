"""What a user relies on of whole models with each attention that scores all pairs: padding, future, steps, watching."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from models.tiny_models import random_tokens
from torch import Tensor

from kit import AttentionRecorder, DecodingSession, EncoderDecoder, Model, TokenBatch

from .dense import VARIANTS, model_with

FAMILIES = ["encoder-decoder", "decoder"]


@pytest.fixture(params=VARIANTS, scope="module")
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(model: Model, source: TokenBatch, target: TokenBatch) -> Tensor:
    scores: Tensor = model(source, target) if isinstance(model, EncoderDecoder) else model(target=target)
    return scores


def begin(model: Any, source: TokenBatch) -> DecodingSession:
    session: DecodingSession = model.start(source) if isinstance(model, EncoderDecoder) else model.start()
    return session


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_on_either_side_changes_nothing(family: str, variant: str) -> None:
    model = model_with(variant, family)
    with torch.no_grad():
        alone = run(model, random_tokens(5), random_tokens(4, seed=1))[0]
        for left in (False, True):
            together = run(model, random_tokens(5, 8, left=left), random_tokens(4, 6, left=left, seed=1))[0]
            assert ((together[-4:] if left else together[:4]) - alone).abs().max() < 1e-10


def test_padding_changes_nothing_in_an_encoder(variant: str) -> None:
    model = model_with(variant, "encoder")
    with torch.no_grad():
        alone = model(random_tokens(5))[0]
        assert (model(random_tokens(5, 8))[0, :5] - alone).abs().max() < 1e-10
        assert (model(random_tokens(5, 8, left=True))[0, -5:] - alone).abs().max() < 1e-10


def test_the_future_never_leaks(variant: str) -> None:
    model = model_with(variant, "decoder")
    target = random_tokens(7, 7, seed=1)
    with torch.no_grad():
        before = model(target=target)
        for place in range(1, 7):
            changed = target.ids.clone()
            changed[:, place:] = (changed[:, place:] + 11) % 49 + 1
            after = model(target=TokenBatch(changed))
            assert torch.equal(before[:, :place], after[:, :place])
            assert not torch.equal(before[:, place:], after[:, place:])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunks", [(1,) * 6, (4, 1, 1), (2, 3, 1)], ids=str)
def test_steps_equal_all_at_once(family: str, variant: str, chunks: tuple[int, ...]) -> None:
    model = model_with(variant, family)
    for left in (False, True):
        source, target = random_tokens(3, 8, left=left), random_tokens(4, 6, left=left, seed=1)
        assert target.padding_mask is not None
        with torch.no_grad():
            whole, session = run(model, source, target), begin(model, source)
            parts, start = [], 0
            for size in chunks:
                piece = slice(start, start + size)
                parts.append(session.step(TokenBatch(target.ids[:, piece], target.padding_mask[:, piece])))
                start += size
        assert (torch.cat(parts, 1) - whole)[target.padding_mask].abs().max() < 1e-10


@pytest.mark.parametrize("family", FAMILIES)
def test_chosen_rows_go_on_as_if_alone(family: str, variant: str) -> None:
    model = model_with(variant, family)
    source, target = random_tokens(3, 8, 5), random_tokens(7, 7, 7, seed=1)
    with torch.no_grad():
        session = begin(model, source)
        session.step(target.ids[:, :3])
        rows = torch.tensor([2, 0, 2, 1])
        session.reorder(rows)
        session.step(target.ids[rows, 3:4])
        session.reorder(torch.tensor([3, 0]))
        rows = rows[[3, 0]]
        found = session.step(target.ids[rows, 4:])
    assert (found - run(model, source, target)[rows, 4:]).abs().max() < 1e-10


def test_watching_changes_nothing(variant: str) -> None:
    model = model_with(variant, "encoder-decoder")
    source, target = random_tokens(3, 8), random_tokens(4, 6, seed=1)
    recorder = AttentionRecorder()
    with torch.no_grad():
        unwatched, watched = model(source, target), model(source, target, observer=recorder)
    assert source.padding_mask is not None and target.padding_mask is not None
    assert (watched - unwatched)[target.padding_mask].abs().max() < 1e-10
    assert len(recorder.by_site) == 6
    for name, weights in recorder.by_site.items():
        keys = (
            target.padding_mask if name == "decoder.0.attention" else source.padding_mask if "cross" in name else None
        )
        assert weights.shape[1] in (2, 4)
        if keys is not None:
            assert weights.masked_select(~keys[:, None, None, :]).abs().max() == 0, name


def test_watching_steps_changes_nothing(variant: str) -> None:
    model: Any = model_with(variant, "decoder")
    target = random_tokens(5, 5, seed=1)
    recorder = AttentionRecorder()
    with torch.no_grad():
        session = model.start(observer=recorder)
        found = [session.step(target.ids[:, n : n + 1]) for n in range(5)]
        assert (torch.cat(found, 1) - model(target=target)).abs().max() < 1e-10
    assert recorder.by_site["decoder.1.attention"].shape[2:] == (1, 5)


@pytest.mark.parametrize("family", [*FAMILIES, "encoder"])
def test_leaving_padding_out_of_memory_changes_nothing(family: str, variant: str) -> None:
    model = model_with(variant, family)
    for left in (False, True):
        source, target = random_tokens(3, 8, left=left), random_tokens(4, 6, left=left, seed=1)
        tokens = source if family == "encoder" else target
        given = {"source": source} if family == "encoder" else {"source": source, "target": target}
        assert tokens.padding_mask is not None
        with torch.no_grad():
            assert (model(**given, packed=True) - model(**given)[tokens.padding_mask]).abs().max() < 1e-10


def test_who_sees_nothing_gives_zero_and_finite_gradients(variant: str) -> None:
    """A row of the source that is all padding: its own queries see nothing, nor do those that read it."""
    model = deepcopy(model_with(variant, "encoder-decoder"))
    source = TokenBatch(random_tokens(4, 4).ids, torch.tensor([[True] * 4, [False] * 4]))
    target = random_tokens(3, 3, seed=1)
    recorder = AttentionRecorder()
    scores = model(source, target)
    assert (model(source, target, observer=recorder) - scores).abs().max() < 1e-10
    for name in ("encoder.0.attention", "encoder.1.attention", "decoder.0.cross_attention"):
        assert recorder.by_site[name][1].abs().max() == 0
    assert scores.isfinite().all()
    scores.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def test_one_token_is_a_text(variant: str) -> None:
    model = model_with(variant, "encoder-decoder")
    assert model(random_tokens(1), random_tokens(1, seed=1)).isfinite().all()
