"""Run of a combination: one training step, and incremental decoding compared with one pass."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from kit.laws.assertions import close, finite
from kit.laws.batches import slices
from kit.laws.law import broken
from kit.laws.matrix import VOCABULARY, Combination, Matrix
from kit.model.families import EncoderDecoder, EncoderModel, Model
from kit.sequence.batch_layout import TokenBatch

PROMPT, GENERATED = 4, 3
"""The length of the prompt, which is prefilled at once, and the number of tokens that are decoded one by one."""


def sequences(needs: tuple[str, ...], seed: int) -> TokenBatch:
    """Returns two sequences with the token features that a mask reads: 1 in the prompt, 0 after it."""
    length = PROMPT + GENERATED
    ids = torch.randint(1, VOCABULARY, (2, length), generator=torch.Generator().manual_seed(seed))
    marked = (torch.arange(length) < PROMPT).long().expand(2, -1)
    return TokenBatch(ids, features=dict.fromkeys(needs, marked), right_padded=True)


def run(matrix: Matrix, chosen: Combination, model: Model) -> None:
    """Trains for one step, then decodes; raises LawBroken if a result is wrong."""
    source, target = (sequences(matrix.needs(chosen), seed) for seed in (0, 1))
    train(model, source, target, str(chosen))
    if not isinstance(model, EncoderModel):
        decode(model.double().eval(), source, target, str(chosen))


def train(model: Model, source: TokenBatch, target: TokenBatch, what: str) -> None:
    """Runs forward, backward and an update; all values must stay finite."""
    model.train()
    logits = _logits(model, source, target)
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), target.ids[:, 1:].flatten())
    finite(loss.detach(), f"{what}: the loss")
    loss.backward()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                finite(parameter.grad, f"{what}: the gradient of {name}")
                parameter.sub_(0.01 * parameter.grad)
    if all(parameter.grad is None for parameter in model.parameters()):
        broken(f"{what}: nothing has a gradient")


@torch.no_grad()
def decode(model: Any, source: TokenBatch, target: TokenBatch, what: str) -> None:
    """Decodes with a cache: prefills the prompt, then decodes one token at a time; compares logits with one pass."""
    full = _logits(model, source, target)
    session = model.start(source) if isinstance(model, EncoderDecoder) else model.start()
    pieces = []
    for piece in slices(PROMPT + GENERATED, (PROMPT, *(1,) * GENERATED)):
        features = {name: feature[:, piece] for name, feature in target.features.items()}
        pieces.append(session.step(TokenBatch(target.ids[:, piece], features=features, right_padded=True)))
    close(torch.cat(pieces, 1), full, f"{what}: incremental decoding", 1e-9)


def _logits(model: Model, source: TokenBatch, target: TokenBatch) -> torch.Tensor:
    out: torch.Tensor = model(source, target) if isinstance(model, EncoderDecoder) else model(target)
    return out
