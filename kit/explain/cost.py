"""What a model costs: parameters, floating-point operations, state and training memory, measured without numbers.

The model runs on the meta device, where tensors have shapes only; so parts nobody has written yet are measured too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from kit.contracts.part import collect_losses
from kit.model.decoding_session import DecodingSession
from kit.model.families import DecoderModel, EncoderDecoder, Model
from kit.recipe.parts import tokens_with_features
from kit.sequence.batch_layout import TokenBatch

ADAM_BYTES = 16
"""A parameter in float32 with its gradient and the two moments of Adam."""


@dataclass(frozen=True)
class Cost:
    """Figures of one model at one length."""

    parameters: int
    length: int
    """The sequence length that FLOPs and activations are counted for."""
    flops_per_token: int
    """FLOPs of a forward pass per token (source and target together count as one)."""
    cache_bytes_per_token: float
    """Growth of the decoding caches (KV cache) per generated token, for one sequence, in float32."""
    fixed_cache_bytes: float
    """Size of the decoding caches that does not depend on the length, for one sequence."""
    training_state_bytes: int
    """Weights, gradients and the optimizer's moments in training, in float32."""
    activation_bytes: int
    """Bytes of activations that one sequence of this length keeps for the backward pass."""


def measure(model: Model, length: int, features: Iterable[str] = ()) -> Cost:
    """Measure a model on the meta device; features: the token features that its masks read."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    features = tuple(features)
    text = tokens_with_features(torch.zeros(1, length, dtype=torch.long, device="meta"), features)
    model.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        _run(model, text)
    grows, fixed = _cache_size(model, length, features)
    return Cost(
        parameters=parameters,
        length=length,
        flops_per_token=counter.get_total_flops() // length,
        cache_bytes_per_token=grows,
        fixed_cache_bytes=fixed,
        training_state_bytes=parameters * ADAM_BYTES,
        activation_bytes=_activations(model, text),
    )


def _run(model: Model, text: TokenBatch) -> Tensor:
    logits: Tensor = model(text, text) if isinstance(model, EncoderDecoder) else model(text)
    return logits


def _cache_size(model: Model, length: int, features: Iterable[str]) -> tuple[float, float]:
    """Growth per token and constant rest of the caches, from their size at two lengths; cross-attention is fixed."""
    if not isinstance(model, EncoderDecoder | DecoderModel):
        return 0.0, 0.0
    first, second = max(1, length // 4), max(2, length // 2)
    sizes = []
    with torch.no_grad():
        for read in (first, second):
            session = _begin(model, length)
            session.step(tokens_with_features(torch.zeros(1, read, dtype=torch.long, device="meta"), features))
            sizes.append(session.bytes)
    growth = (sizes[1] - sizes[0]) / (second - first)
    return growth, sizes[0] - growth * first


def _begin(model: EncoderDecoder | DecoderModel, length: int) -> DecodingSession:
    if isinstance(model, DecoderModel):
        return model.start()
    return model.start(torch.zeros(1, length, dtype=torch.long, device="meta"))


def _activations(model: Model, text: TokenBatch) -> int:
    """Bytes that autograd keeps for one sequence, each storage once, weights left out."""
    weights = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept: dict[int, Any] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = storage
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = _run(model, text)
    collect_losses(model)
    del logits
    model.eval()
    return sum(storage.nbytes() for storage in kept.values())
