"""Input saliency: the dependence of predictions on input tokens, by the gradient of embeddings and by occlusion.

Shapes: P predictions, N input tokens, B copies of a sequence, L length, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kit import ExampleIds, Inspector, Model, TokenBatch


@dataclass(frozen=True)
class Saliency:
    """The dependence of one sequence's predictions on its input tokens, by input: source or target."""

    predictions: tuple[str, ...]
    """The predicted tokens, one after each input token; or one class."""
    by_gradient: Mapping[str, Tensor]
    """[P, N]: the norm of the gradient of a prediction's log-probability by a token's embedding."""
    by_occlusion: Mapping[str, Tensor]
    """[P, N]: the fall of the log-probability where the mean embedding of the sequence replaces the token's."""


def saliency(inspector: Inspector, ids: ExampleIds) -> Saliency | None:
    """The saliency of one example; None for a masked language model, since nothing is masked in the input."""
    (complete,), _ = inspector.with_generated_targets([ids])
    batch = inspector.reader.batch([complete], inspector.device)
    source, target = inspector.reader.model_inputs(batch)
    with torch.inference_mode():
        logits = inspector.model(source, target)
    if logits.dim() == 3 and not inspector.reader.predicts_next_token:
        return None
    if logits.dim() == 2:  # a classifier: its most probable class, right or wrong
        gold_P = logits[0].argmax()[None]
        names = [str(int(gold_P))]
        names = [inspector.reader.labels[int(gold_P)]] if inspector.reader.labels else names
    else:
        whole = batch.target if batch.target is not None else batch.source
        assert whole is not None
        gold_P = whole.ids[0, 1:]
        names = list(map(inspector.reader.tokenizers.target.token, gold_P.tolist()))
    sides = [name for name, tokens in (("source", source), ("target", target)) if tokens is not None]
    gradients = _gradient_norms(inspector.model, source, target, gold_P)
    falls = _occlusion(inspector.model, source, target, gold_P)
    return Saliency(tuple(names), dict(zip(sides, gradients, strict=True)), dict(zip(sides, falls, strict=True)))


def _gradient_norms(model: Model, source: TokenBatch | None, target: TokenBatch | None, gold_P: Tensor) -> list[Tensor]:
    """[P, N] for each input: a copy of the sequence for each prediction, so that one backward pass is enough."""
    count = len(gold_P)
    kept: list[Tensor] = []

    def keep(vectors: Tensor) -> Tensor:
        kept.append(vectors.detach().requires_grad_())
        return kept[-1]

    with torch.enable_grad(), _changed_embeddings(model, keep):
        log_p_BP = _log_probabilities(model, _copied(source, count), _copied(target, count), gold_P)
        gradients = torch.autograd.grad(log_p_BP.diagonal().sum(), kept)
    return [gradient_BLD.norm(dim=-1).double().cpu() for gradient_BLD in gradients]


def _occlusion(model: Model, source: TokenBatch | None, target: TokenBatch | None, gold_P: Tensor) -> list[Tensor]:
    """[P, N] for each input: a copy of the sequence for each occluded token, and one without occlusion."""
    found = []
    for side, tokens in enumerate(tokens for tokens in (source, target) if tokens is not None):
        count, calls = tokens.ids.shape[1], 0

        def occlude(vectors_BLD: Tensor, side: int = side, count: int = count) -> Tensor:
            nonlocal calls
            calls += 1
            if calls - 1 != side:
                return vectors_BLD
            changed = vectors_BLD.clone()
            positions = torch.arange(count, device=changed.device)
            changed[positions, positions] = vectors_BLD[0].mean(0)
            return changed

        with torch.inference_mode(), _changed_embeddings(model, occlude):
            log_p_BP = _log_probabilities(model, _copied(source, count + 1), _copied(target, count + 1), gold_P)
        found.append((log_p_BP[-1] - log_p_BP[:-1]).T.double().cpu())
    return found


def _log_probabilities(model: Model, source: TokenBatch | None, target: TokenBatch | None, gold_P: Tensor) -> Tensor:
    """[B, P]: the log-probability of each prediction in each copy."""
    logits: Tensor = model(source, target)
    log_p = logits.float().log_softmax(-1)
    if log_p.dim() == 2:
        return log_p[:, gold_P]
    return log_p.gather(2, gold_P.expand(len(log_p), -1)[..., None])[..., 0]


def _copied(tokens: TokenBatch | None, count: int) -> TokenBatch | None:
    if tokens is None:
        return None
    features = {name: feature.expand(count, -1) for name, feature in tokens.features.items()}
    return replace(tokens, ids=tokens.ids.expand(count, -1), padding_mask=None, features=features)


@contextmanager
def _changed_embeddings(model: Model, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Applies a function to the output of the embedding, that of the encoder first."""

    def hook(module: Any, given: Any, vectors: Tensor) -> Tensor:
        return change(vectors)

    towers = [getattr(model, name) for name in ("encoder", "decoder") if hasattr(model, name)]
    embeddings = {id(tower.embedding): tower.embedding for tower in towers}
    handles = [embedding.register_forward_hook(hook) for embedding in embeddings.values()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
