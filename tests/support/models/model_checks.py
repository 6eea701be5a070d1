"""What a user relies on of any assembled model, as one call: padding, future, steps, rows, watching, gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kit import AttentionRecorder, EncoderDecoder, Model, TokenBatch
from models.tiny_models import random_tokens

CLOSE = 1e-10


def check_decoder(model: Model, regroups: bool = False) -> None:
    """Everything, for a model that writes.

    regroups: other tokens decide how many are multiplied at once, and some processors' libraries round by that number.
    """
    check_padding(model)
    check_future(model, CLOSE if regroups else 0.0)
    check_steps(model)
    check_rows(model)
    check_watching(model)
    check_packing(model)
    check_gradients(model)


def check_encoder(model: Model) -> None:
    """Everything that concerns a model that only reads."""
    with torch.no_grad():
        alone = model(random_tokens(5))[0]
        assert (model(random_tokens(5, 8))[0, :5] - alone).abs().max() < CLOSE
        assert (model(random_tokens(5, 8, left=True))[0, -5:] - alone).abs().max() < CLOSE
        for left in (False, True):
            source = random_tokens(3, 8, 0, left=left)
            assert (model(source, packed=True) - model(source)[source.padding_mask]).abs().max() < CLOSE
            watched = model(source, observer=AttentionRecorder())
            assert (watched - model(source))[source.padding_mask].abs().max() < CLOSE
        assert model(random_tokens(1)).isfinite().all()
    _gradients(model, {"source": random_tokens(3, 8)})


def run(model: Model, source: TokenBatch, target: TokenBatch, **more: Any) -> Tensor:
    """Scores of the target."""
    return model(source, target, **more) if isinstance(model, EncoderDecoder) else model(target=target, **more)


def begin(model: Any, source: TokenBatch) -> Any:
    """A session."""
    return model.start(source) if isinstance(model, EncoderDecoder) else model.start()


@torch.no_grad()
def check_padding(model: Model) -> None:
    alone = [
        run(model, random_tokens(5), random_tokens(4, seed=1)),
        run(model, random_tokens(5, 8), random_tokens(4, 6, seed=1))[1:],
    ]
    for left in (False, True):
        together = run(model, random_tokens(5, 8, left=left), random_tokens(4, 6, left=left, seed=1))
        first = together[0, -4:] if left else together[0, :4]
        assert (first - alone[0][0]).abs().max() < CLOSE
        assert (together[1] - alone[1][0]).abs().max() < CLOSE


@torch.no_grad()
def check_future(model: Model, rounding: float = 0.0) -> None:
    target = random_tokens(7, 7, seed=1)
    before = run(model, random_tokens(5, 8), target)
    for place in range(1, 7):
        changed = target.ids.clone()
        changed[:, place:] = (changed[:, place:] + 11) % 49 + 1
        after = run(model, random_tokens(5, 8), TokenBatch(changed))
        assert (before[:, :place] - after[:, :place]).abs().max() <= rounding
        assert (before[:, place:] - after[:, place:]).abs().max() > 1e-6


@torch.no_grad()
def check_steps(model: Model) -> None:
    for left in (False, True):
        source, target = random_tokens(3, 8, left=left), random_tokens(4, 6, left=left, seed=1)
        assert target.padding_mask is not None
        whole = run(model, source, target)
        for chunks in ((1,) * 6, (4, 1, 1), (2, 3, 1)):
            session = begin(model, source)
            ids, padding_mask = target.ids.split(chunks, 1), target.padding_mask.split(chunks, 1)
            parts = [session.step(TokenBatch(piece, real)) for piece, real in zip(ids, padding_mask, strict=True)]
            assert (torch.cat(parts, 1) - whole)[target.padding_mask].abs().max() < CLOSE


@torch.no_grad()
def check_rows(model: Model) -> None:
    source, target = random_tokens(3, 8, 5), random_tokens(7, 7, 7, seed=1)
    session = begin(model, source)
    session.step(target.ids[:, :3])
    rows = torch.tensor([2, 0, 2, 1])
    session.reorder(rows)
    session.step(target.ids[rows, 3:4])
    session.reorder(torch.tensor([3, 0]))
    rows = rows[[3, 0]]
    found = session.step(target.ids[rows, 4:])
    assert (found - run(model, source, target)[rows, 4:]).abs().max() < CLOSE


@torch.no_grad()
def check_watching(model: Model) -> None:
    source, target = random_tokens(3, 8), random_tokens(4, 6, seed=1)
    assert target.padding_mask is not None
    recorder = AttentionRecorder()
    watched = run(model, source, target, observer=recorder)
    assert (watched - run(model, source, target))[target.padding_mask].abs().max() < CLOSE
    for name, weights in recorder.by_site.items():
        queries = source.padding_mask if name.startswith("encoder") else target.padding_mask
        assert queries is not None
        assert (weights.sum(-1).transpose(1, 2)[queries] - 1).abs().max() < CLOSE


def check_packing(model: Model) -> None:
    for left in (False, True):
        source, target = random_tokens(3, 8, left=left), random_tokens(4, 6, left=left, seed=1)
        padded = run(model, source, target)[target.padding_mask]
        assert (run(model, source, target, packed=True) - padded).abs().max() < CLOSE


def check_gradients(model: Model) -> None:
    given = {"source": random_tokens(3, 8), "target": random_tokens(4, 6, seed=1)}
    _gradients(model, given if isinstance(model, EncoderDecoder) else {"target": given["target"]})


def _gradients(model: Model, given: dict[str, TokenBatch]) -> None:
    for packed in (False, True):
        model.zero_grad()
        model.train()(**given, packed=packed).log_softmax(-1)[..., 3].sum().backward()
        model.eval()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
