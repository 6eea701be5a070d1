"""Attention through all layers: rollout (Abnar and Zuidema 2020), and its extension to encoder-decoders.

Shapes: L layers, Q queries, K keys, T target tokens, S source tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from kit import AttentionMap, AttentionRecord, Drawing, Inspector, Options, TextProbe

FIXED = (
    "With half of every step kept, the source gets {share:.1%} of all attention in a decoder of {depth} layers, "
    "whatever the model does: only how that is spread over the source tells something."
)


class RolloutOptions(Options):
    """Options of `rollout`: there are none."""

    use: Literal["rollout"] = "rollout"


class RolloutProbe(TextProbe):
    """Half of each token stays, half goes as the heads of a layer attend in the mean, layer by layer."""

    options_type = RolloutOptions

    def draw(self, record: AttentionRecord, inspector: Inspector) -> list[Drawing]:
        """One picture for an encoder; two for a decoder, whose early tokens are favoured; one for a pair."""
        if record.unseen:
            return []
        pictures = []
        if record.source is not None and record.of("encoder"):
            tokens = record.source.tokens
            pictures.append(Drawing("rollout, encoder", tokens, tokens, rollout(record.of("encoder"))))
        if record.target is None or not record.of("decoder"):
            return pictures
        tokens = record.target.tokens
        if record.source is None:
            rolled, even = rollout(record.of("decoder")), rollout(record.uniform().of("decoder"))
            pictures.append(Drawing("rollout, decoder", tokens, tokens, rolled))
            ratio = torch.where(even > 0, rolled / even.clamp(min=1e-12), torch.zeros_like(rolled))
            note = "Early tokens get more by the order of reading alone; 1 is what even attention would give."
            pictures.append(Drawing("rollout over that of even attention", tokens, tokens, ratio, note))
            return pictures
        _, on_source = rollout_across(record)
        share = 1 - 0.5 ** len(record.of("cross"))
        note = FIXED.format(share=share, depth=len(record.of("cross")))
        source = record.source.tokens
        pictures.append(Drawing("rollout, target to source", tokens, source, on_source, note))
        return pictures


def rollout(maps: Sequence[AttentionMap]) -> Tensor:
    """[Q, K]: how much of each token of the text is in each token of the last layer; rows sum to one."""
    rolled = torch.eye(len(maps[0].allowed), dtype=torch.float64)
    for found in maps:
        rolled = step(found) @ rolled
    return rolled


def step(found: AttentionMap) -> Tensor:
    """[Q, K]: one layer of attention to the text itself, half of each token kept."""
    mixed = found.shares.mean(0)
    both = (mixed + torch.eye(len(mixed), dtype=mixed.dtype)) / 2
    return both / both.sum(-1, keepdim=True)


def rollout_across(record: AttentionRecord) -> tuple[Tensor, Tensor]:
    """[T, T] and [T, S]: how much of each target token, and of each source token, is in each token that is written.

    Every row of both together sums to one.
    """
    encoded = rollout(record.of("encoder")) if record.of("encoder") else None
    assert record.source is not None
    size = len(record.queries(record.of("decoder")[0]))
    on_target = torch.eye(size, dtype=torch.float64)
    on_source = torch.zeros(size, len(record.source), dtype=torch.float64)
    for own, cross in zip(record.of("decoder"), record.of("cross"), strict=True):
        on_target, on_source = step(own) @ on_target, step(own) @ on_source
        found = cross.shares.mean(0)
        found = found / found.sum(-1, keepdim=True).clamp(min=1e-300)
        reached = found if encoded is None else found @ encoded
        on_target, on_source = on_target / 2, (on_source + reached) / 2
    return on_target, on_source
