"""Tries a combination for real: one step of training, and writing with a state, against all at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from kit.laws.batches import pieces
from kit.laws.comparing import close, finite
from kit.laws.law import broken
from kit.laws.matrix import VOCABULARY, Combination, Matrix
from kit.model.families import EncoderDecoder, EncoderModel, Model
from kit.tokens import Tokens

GIVEN, WRITTEN = 4, 3
"""Tokens that are read at once, and those that follow one by one."""


def texts(needs: tuple[str, ...], seed: int) -> Tokens:
    """Two texts, with the facts that a mask wants: 1 for what is read at once, 0 for what is written."""
    length = GIVEN + WRITTEN
    ids = torch.randint(1, VOCABULARY, (2, length), generator=torch.Generator().manual_seed(seed))
    marked = (torch.arange(length) < GIVEN).long().expand(2, -1)
    return Tokens(ids, facts=dict.fromkeys(needs, marked), right_padded=True)


def run(matrix: Matrix, chosen: Combination, model: Model) -> None:
    """A step of training, then writing; raises LawBroken where a number is wrong."""
    source, target = (texts(matrix.needs(chosen), seed) for seed in (0, 1))
    train(model, source, target, str(chosen))
    if not isinstance(model, EncoderModel):
        write(model.double().eval(), source, target, str(chosen))


def train(model: Model, source: Tokens, target: Tokens, what: str) -> None:
    """Forward, back and a step down; every number stays finite."""
    model.train()
    scores = _scores(model, source, target)
    loss = F.cross_entropy(scores[:, :-1].flatten(0, 1), target.ids[:, 1:].flatten())
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
def write(model: Any, source: Tokens, target: Tokens, what: str) -> None:
    """The first tokens at once, then one by one."""
    whole = _scores(model, source, target)
    session = model.start(source) if isinstance(model, EncoderDecoder) else model.start()
    parts = []
    for piece in pieces(GIVEN + WRITTEN, (GIVEN, *(1,) * WRITTEN)):
        facts = {name: fact[:, piece] for name, fact in target.facts.items()}
        parts.append(session.step(Tokens(target.ids[:, piece], facts=facts, right_padded=True)))
    close(torch.cat(parts, 1), whole, f"{what}: written step by step", 1e-9)


def _scores(model: Model, source: Tokens, target: Tokens) -> torch.Tensor:
    out: torch.Tensor = model(source, target) if isinstance(model, EncoderDecoder) else model(target)
    return out
