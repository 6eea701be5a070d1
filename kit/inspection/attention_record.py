"""Attention weights of one sequence: every head of every layer with its tokens, and the observer that collects them.

Shapes: B batch, H heads, Q queries, K keys. A weight stands at [query, key]: row 3, column 1 is what the fourth token
takes from the second. A record holds no padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from kit.contracts.probe import AttentionKind, attention_kind
from kit.errors import KitError
from kit.plugin.component import BuildContext
from kit.sequence.attention_context import AttentionContext
from kit.sequence.batch_layout import BatchLayout
from kit.sequence.observer import AttentionRecorder

TOLERANCE = 1e-3
"""How far a row of weights may be from summing to one."""


@dataclass(frozen=True)
class TokenRow:
    """The tokens that the encoder or the decoder received."""

    ids: tuple[int, ...]
    """The token ids."""
    tokens: tuple[str, ...]
    """The text of each token, such as `<end>` or `▁the`."""
    special: tuple[bool, ...]
    """Which of them are special tokens: start, end, mask, separator."""
    next_tokens: tuple[str, ...] | None = None
    """The token after each one, which is what its query predicts; empty at the last where nothing follows. None where
    the next token is not predicted."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class AttentionMap:
    """The attention weights [H, Q, K] of one attention module for one sequence."""

    site: str
    """The path of the module: `decoder.0.cross_attention`."""
    kind: AttentionKind
    layer: int
    """The index of its layer in the stack, from 0."""
    weights: Tensor
    """[H, Q, K], on the CPU."""
    attention_mask: Tensor
    """[Q, K]: true where the query may attend to the key."""

    @property
    def heads(self) -> int:
        """The number of heads."""
        return self.weights.shape[0]

    @property
    def sums_to_one(self) -> bool:
        """Whether the weights of every query with a visible key are a probability distribution."""
        visible = self.attention_mask.any(1)
        sums = self.weights[:, visible].double().sum(-1)
        return bool((self.weights >= 0).all()) and bool(((sums - 1).abs() < TOLERANCE).all())

    @property
    def probabilities(self) -> Tensor:
        """[H, Q, K] in float64: the weights of each query, normalised to sum to exactly one.

        Negative weights (differential attention) count as 0; a query that attends to nothing has zeros.
        """
        weights = self.weights.double().clamp(min=0).masked_fill(~self.attention_mask, 0.0)
        return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)

    @property
    def has_choice(self) -> Tensor:
        """[Q]: true where a query sees more than one key; with one, its weight is always 1."""
        return self.attention_mask.sum(1) > 1

    @property
    def offsets(self) -> Tensor:
        """[Q, K]: the position of the key minus that of the query; negative for earlier keys."""
        queries, keys = self.attention_mask.shape
        return torch.arange(keys)[None] - torch.arange(queries)[:, None]

    def uniform(self) -> AttentionMap:
        """The same map with uniform attention: equal weights on all visible keys."""
        visible = self.attention_mask.double()
        each = visible / visible.sum(-1, keepdim=True).clamp(min=1)
        return replace(self, weights=each.expand(self.heads, -1, -1))


@dataclass(frozen=True)
class AttentionRecord:
    """The attention maps of one sequence through one model, with its tokens."""

    maps: tuple[AttentionMap, ...]
    """Every attention module that returns weights, in the order of execution."""
    source: TokenRow | None
    """The input of the encoder; None without one."""
    target: TokenRow | None
    """The input of the decoder; None without one."""
    unseen: Mapping[str, str] = field(default_factory=dict)
    """Attention modules without weights, by path, with the reason."""
    generated: bool = False
    """Whether the model generated the target itself."""

    def __getitem__(self, site: str) -> AttentionMap:
        for found in self.maps:
            if found.site == site:
                return found
        if site in self.unseen:
            raise KitError(f"{site} has no weights to show: {self.unseen[site]}")
        raise KitError(f"there is no attention {site!r} here; there are {', '.join(it.site for it in self.maps)}")

    def of(self, kind: AttentionKind) -> tuple[AttentionMap, ...]:
        """The maps of one kind of attention, by layer."""
        return tuple(found for found in self.maps if found.kind == kind)

    def queries(self, found: AttentionMap) -> TokenRow:
        """The tokens of the queries of a map."""
        row = self.source if found.kind == "encoder" else self.target
        assert row is not None
        return row

    def keys(self, found: AttentionMap) -> TokenRow:
        """The tokens of the keys of a map."""
        row = self.target if found.kind == "decoder" else self.source
        assert row is not None
        return row

    def uniform(self) -> AttentionRecord:
        """The same record with uniform attention: the baseline of measures."""
        return replace(self, maps=tuple(found.uniform() for found in self.maps))


class BatchRecorder(AttentionRecorder):
    """Keeps the weights of a whole batch with their masks, and cuts them into maps without padding."""

    def __init__(self) -> None:
        super().__init__()
        self._contexts: dict[str, tuple[BuildContext, AttentionContext]] = {}

    def weights(self, build_context: BuildContext, weights_BHQK: Tensor, context: AttentionContext) -> None:
        """Keep them, detached, in main memory."""
        super().weights(build_context, weights_BHQK.detach().cpu(), context)
        self._contexts[build_context.name] = build_context, context

    def maps(self, row: int) -> Iterator[AttentionMap]:
        """The maps of one sequence of the batch, its padding cut off."""
        for name, (build_context, context) in self._contexts.items():
            queries, keys = real_positions(context.queries, row), real_positions(context.keys, row)
            yield AttentionMap(
                name,
                attention_kind(build_context),
                build_context.layer,
                self.by_site[name][row][:, queries][:, :, keys].clone(),
                _mask_of_row(context, row)[queries][:, keys],
            )


def real_positions(layout: BatchLayout, row: int) -> Tensor:
    """The positions of a row's tokens that are not padding."""
    if layout.padding_mask is None:
        return torch.arange(layout.length)
    return layout.padding_mask[row].cpu().nonzero()[:, 0]


def _mask_of_row(context: AttentionContext, row: int) -> Tensor:
    mask = context.attention_mask
    if mask is None:
        return torch.ones(context.queries.length, context.keys.length, dtype=torch.bool)
    return mask[row if mask.shape[0] > 1 else 0, 0].cpu()
