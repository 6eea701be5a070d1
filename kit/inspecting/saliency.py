"""How predictions depend on the tokens that are read: by the slope of their vectors, and by hiding each in turn.

Shapes: P predictions, N tokens that are read, B copies of a text, L length, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kit.inspecting.inspector import Inspector
from kit.inspecting.reading import Ids
from kit.model.families import Model
from kit.tokens import Tokens


@dataclass(frozen=True)
class Saliency:
    """What the predictions of one text depend on, by the side that is read: source or target."""

    predictions: tuple[str, ...]
    """What was predicted: the token after each, or one class."""
    by_slope: Mapping[str, Tensor]
    """[P, N]: the length of the slope of the log-probability of a prediction, by a token's vector."""
    by_hiding: Mapping[str, Tensor]
    """[P, N]: by how much the log-probability falls where the mean of all vectors stands in the token's place."""


def saliency(inspector: Inspector, ids: Ids) -> Saliency | None:
    """None for a model that predicts hidden tokens: nothing is hidden in a text as it is."""
    (filled,), _ = inspector.filled([ids])
    batch = inspector.reader.batch([filled], inspector.device)
    source, target = inspector.reader.inputs(batch)
    with torch.inference_mode():
        scores = inspector.model(source, target)
    if scores.dim() == 3 and not inspector.reader.follows:
        return None
    if scores.dim() == 2:  # a class: the likeliest, whatever is right
        gold_P = scores[0].argmax()[None]
        names = [str(int(gold_P))]
        names = [inspector.reader.labels[int(gold_P)]] if inspector.reader.labels else names
    else:
        whole = batch.target if batch.target is not None else batch.source
        assert whole is not None
        gold_P = whole.ids[0, 1:]
        names = list(map(inspector.reader.tokenizers.target.token, gold_P.tolist()))
    sides = [name for name, tokens in (("source", source), ("target", target)) if tokens is not None]
    slopes = _slopes(inspector.model, source, target, gold_P)
    hidden = _hidden(inspector.model, source, target, gold_P)
    return Saliency(tuple(names), dict(zip(sides, slopes, strict=True)), dict(zip(sides, hidden, strict=True)))


def _slopes(model: Model, source: Tokens | None, target: Tokens | None, gold_P: Tensor) -> list[Tensor]:
    """A copy of the text for each prediction, so that one pass backwards gives the slopes of all."""
    count = len(gold_P)
    kept: list[Tensor] = []

    def keep(vectors: Tensor) -> Tensor:
        kept.append(vectors.detach().requires_grad_())
        return kept[-1]

    with torch.enable_grad(), _vectors(model, keep):
        log_p_BP = _log_probabilities(model, _copied(source, count), _copied(target, count), gold_P)
        slopes = torch.autograd.grad(log_p_BP.diagonal().sum(), kept)
    return [slope_BLD.norm(dim=-1).double().cpu() for slope_BLD in slopes]


def _hidden(model: Model, source: Tokens | None, target: Tokens | None, gold_P: Tensor) -> list[Tensor]:
    """For each side, a copy of the text for each of its tokens, which is hidden in it, and one with nothing hidden."""
    found = []
    for side, tokens in enumerate(tokens for tokens in (source, target) if tokens is not None):
        count, calls = tokens.ids.shape[1], 0

        def hide(vectors_BLD: Tensor, side: int = side, count: int = count) -> Tensor:
            nonlocal calls
            calls += 1
            if calls - 1 != side:
                return vectors_BLD
            changed = vectors_BLD.clone()
            places = torch.arange(count, device=changed.device)
            changed[places, places] = vectors_BLD[0].mean(0)
            return changed

        with torch.inference_mode(), _vectors(model, hide):
            log_p_BP = _log_probabilities(model, _copied(source, count + 1), _copied(target, count + 1), gold_P)
        found.append((log_p_BP[-1] - log_p_BP[:-1]).T.double().cpu())
    return found


def _log_probabilities(model: Model, source: Tokens | None, target: Tokens | None, gold_P: Tensor) -> Tensor:
    """[B, P]: of each prediction in each copy."""
    scores: Tensor = model(source, target)
    log_p = scores.float().log_softmax(-1)
    if log_p.dim() == 2:
        return log_p[:, gold_P]
    return log_p.gather(2, gold_P.expand(len(log_p), -1)[..., None])[..., 0]


def _copied(tokens: Tokens | None, count: int) -> Tokens | None:
    if tokens is None:
        return None
    facts = {name: fact.expand(count, -1) for name, fact in tokens.facts.items()}
    return replace(tokens, ids=tokens.ids.expand(count, -1), valid=None, facts=facts)


@contextmanager
def _vectors(model: Model, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Lets the vectors of tokens be changed as they come out of the embedding, source first."""

    def hook(module: Any, given: Any, vectors: Tensor) -> Tensor:
        return change(vectors)

    embeddings = {id(side.embedding): side.embedding for side in _sides(model)}
    handles = [embedding.register_forward_hook(hook) for embedding in embeddings.values()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _sides(model: Model) -> list[Any]:
    return [getattr(model, name) for name in ("encoder", "decoder") if hasattr(model, name)]
