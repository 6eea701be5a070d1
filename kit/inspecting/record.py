"""What the attention of a model did with one text: the weights of every head of every layer, and the tokens.

Shapes: H heads, Q queries, K keys. A weight stands at [query, key]: row 3, column 1 is how much the fourth token takes
of the second. There is no padding in a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from kit.errors import KitError

Kind = Literal["encoder", "decoder", "cross"]
"""Whose queries and keys: the source's own, the target's own, or the target's queries on the source's keys."""
CLOSE = 1e-3


@dataclass(frozen=True)
class TokenRow:
    """The tokens that one side of a model read."""

    ids: tuple[int, ...]
    """Their numbers."""
    tokens: tuple[str, ...]
    """How each is written, such as `<end>` or `▁the`."""
    special: tuple[bool, ...]
    """Which of them stand for no text: start, end, mask, separator."""
    following: tuple[str, ...] | None = None
    """In a side that writes, what came after each token: the choice that a query made. Empty at the last, where nothing
    followed; None in a side that only reads."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one attention of one layer."""

    site: str
    """Where it is: `decoder.0.cross_attention`."""
    kind: Kind
    layer: int
    """Which layer of its stack, counted from 0."""
    weights: Tensor
    """[heads, queries, keys], on the CPU."""
    allowed: Tensor
    """[queries, keys]: which keys each query may see."""

    @property
    def heads(self) -> int:
        """How many heads there are."""
        return self.weights.shape[0]

    @property
    def sums_to_one(self) -> bool:
        """Whether the weights of every query that sees something are shares of a whole."""
        seeing = self.allowed.any(1)
        sums = self.weights[:, seeing].double().sum(-1)
        return bool((self.weights >= 0).all()) and bool(((sums - 1).abs() < CLOSE).all())

    @property
    def shares(self) -> Tensor:
        """[heads, queries, keys] in float64: each query's weights divided by their sum, exactly.

        Weights of attentions that are no shares (sigmoid, differential) are made so, what is negative as 0; a query
        that gives nothing to any key has zeros.
        """
        weights = self.weights.double().clamp(min=0).masked_fill(~self.allowed, 0.0)
        return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)

    def uniform(self) -> AttentionMap:
        """The same place with a head that gives every key that may be seen the same."""
        seen = self.allowed.double()
        each = seen / seen.sum(-1, keepdim=True).clamp(min=1)
        return replace(self, weights=each.expand(self.heads, -1, -1))


@dataclass(frozen=True)
class AttentionRecord:
    """One text through one model."""

    maps: tuple[AttentionMap, ...]
    """Every attention that has weights, in the order in which they ran."""
    source: TokenRow | None
    """What the encoder read; None where there is none."""
    target: TokenRow | None
    """What the decoder read; None where there is none."""
    unseen: Mapping[str, str] = field(default_factory=dict)
    """Attentions that have no weights to show, by site, and why."""
    written: bool = False
    """Whether the target is what the model wrote itself, rather than one that was given."""

    def __getitem__(self, site: str) -> AttentionMap:
        for found in self.maps:
            if found.site == site:
                return found
        if site in self.unseen:
            raise KitError(f"{site} has no weights to show: {self.unseen[site]}")
        raise KitError(f"there is no attention {site!r} here; there are {', '.join(it.site for it in self.maps)}")

    def of(self, kind: Kind) -> tuple[AttentionMap, ...]:
        """The attentions of one kind, by layer."""
        return tuple(found for found in self.maps if found.kind == kind)

    def queries(self, found: AttentionMap) -> TokenRow:
        """The tokens that ask."""
        row = self.source if found.kind == "encoder" else self.target
        assert row is not None
        return row

    def keys(self, found: AttentionMap) -> TokenRow:
        """The tokens that are looked at."""
        row = self.target if found.kind == "decoder" else self.source
        assert row is not None
        return row

    def uniform(self) -> AttentionRecord:
        """The same text through a model whose heads prefer nothing: what measures are compared with."""
        return replace(self, maps=tuple(found.uniform() for found in self.maps))


def kind_of(stack: str, role: str) -> Kind:
    """What an attention looks at, from where it is."""
    if role == "cross_attention":
        return "cross"
    return "encoder" if stack == "encoder" else "decoder"
