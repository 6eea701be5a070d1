"""Attention rollout (Abnar and Zuidema 2020), and its extension to encoder-decoders.

Shapes: L layers, Q queries, K keys, T target tokens, S source tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from kit import AttentionMap, AttentionRecord, Drawing, Inspector, Options, SequenceProbe

FIXED = (
    "With residual weights fixed at one half, the source gets {share:.1%} of all attention in a decoder of {depth} "
    "layers, whatever the model does: only the distribution over the source is informative."
)


class RolloutOptions(Options):
    """Options of `rollout`: there are none."""

    use: Literal["rollout"] = "rollout"


class RolloutProbe(SequenceProbe):
    """The product over layers of half the identity (the residual) and half the mean attention of the heads."""

    options_type = RolloutOptions

    def draw(self, record: AttentionRecord, inspector: Inspector) -> list[Drawing]:
        """One drawing for an encoder; two for a decoder, which favours early tokens; one for an encoder-decoder."""
        if record.unseen:
            return []
        drawings = []
        if record.source is not None and record.of("encoder"):
            tokens = record.source.tokens
            drawings.append(Drawing("rollout, encoder", tokens, tokens, rollout(record.of("encoder"))))
        if record.target is None or not record.of("decoder"):
            return drawings
        tokens = record.target.tokens
        if record.source is None:
            rolled, uniform = rollout(record.of("decoder")), rollout(record.uniform().of("decoder"))
            drawings.append(Drawing("rollout, decoder", tokens, tokens, rolled))
            ratio = torch.where(uniform > 0, rolled / uniform.clamp(min=1e-12), torch.zeros_like(rolled))
            note = "The causal mask alone favours early tokens; 1 is the value of uniform attention."
            drawings.append(Drawing("rollout over that of uniform attention", tokens, tokens, ratio, note))
            return drawings
        _, on_source = rollout_across(record)
        share = 1 - 0.5 ** len(record.of("cross"))
        note = FIXED.format(share=share, depth=len(record.of("cross")))
        source = record.source.tokens
        drawings.append(Drawing("rollout, target to source", tokens, source, on_source, note))
        return drawings


def rollout(maps: Sequence[AttentionMap]) -> Tensor:
    """[Q, K]: the contribution of each input token to each token of the last layer; rows sum to one."""
    rolled = torch.eye(len(maps[0].attention_mask), dtype=torch.float64)
    for found in maps:
        rolled = layer_matrix(found) @ rolled
    return rolled


def layer_matrix(found: AttentionMap) -> Tensor:
    """[Q, K]: one layer of self-attention with its residual: half the identity, half the mean of the heads."""
    mixed = found.probabilities.mean(0)
    both = (mixed + torch.eye(len(mixed), dtype=mixed.dtype)) / 2
    return both / both.sum(-1, keepdim=True)


def rollout_across(record: AttentionRecord) -> tuple[Tensor, Tensor]:
    """[T, T] and [T, S]: the contributions of target and source tokens to each output of the decoder.

    Each row of both together sums to one.
    """
    encoded = rollout(record.of("encoder")) if record.of("encoder") else None
    assert record.source is not None
    size = len(record.queries(record.of("decoder")[0]))
    on_target = torch.eye(size, dtype=torch.float64)
    on_source = torch.zeros(size, len(record.source), dtype=torch.float64)
    for own, cross in zip(record.of("decoder"), record.of("cross"), strict=True):
        on_target, on_source = layer_matrix(own) @ on_target, layer_matrix(own) @ on_source
        found = cross.probabilities.mean(0)
        found = found / found.sum(-1, keepdim=True).clamp(min=1e-300)
        reached = found if encoded is None else found @ encoded
        on_target, on_source = on_target / 2, (on_source + reached) / 2
    return on_target, on_source
