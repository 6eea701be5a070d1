"""Records with heads whose numbers can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kit import AttentionKind, AttentionMap, AttentionRecord, ExampleIds, Inspector, TokenRow
from kit.data.tokenizers import Tokenizers
from kit.inspection.example_reader import ExampleReader

SITES: dict[AttentionKind, str] = {
    "encoder": "encoder.{}.attention",
    "decoder": "decoder.{}.attention",
    "cross": "decoder.{}.cross_attention",
}


class Numbers:
    """A tokenizer that writes a token as its number."""

    size = 200

    def token(self, number: int) -> str:
        return str(number)

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]


def causal(size: int) -> Tensor:
    return torch.ones(size, size).tril().bool()


def everything(size: int, keys: int | None = None) -> Tensor:
    return torch.ones(size, keys or size).bool()


def softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.double().masked_fill(~allowed, float("-inf")).softmax(-1)


def previous(size: int) -> Tensor:
    """The token before; the first has none before it, and looks at itself."""
    weights = torch.zeros(size, size, dtype=torch.float64)
    places = torch.arange(size)
    weights[places, (places - 1).clamp(min=0)] = 1.0
    return weights


def sink(size: int) -> Tensor:
    weights = torch.zeros(size, size, dtype=torch.float64)
    weights[:, 0] = 1.0
    return weights


def even(allowed: Tensor) -> Tensor:
    return softmax(torch.zeros(allowed.shape), allowed)


def alibi(size: int, slope: float = 0.25) -> Tensor:
    places = torch.arange(size).double()
    return softmax(slope * (places[None] - places[:, None]), causal(size))


def row(ids: Sequence[int], writes: bool = False) -> TokenRow:
    tokens = tuple(map(str, ids))
    special = tuple(number < 6 and number != 3 for number in ids)
    return TokenRow(tuple(ids), tokens, special, (*tokens[1:], "2") if writes else None)


def own(
    weights: Sequence[Tensor], allowed: Tensor, ids: Sequence[int] | None = None, kind: AttentionKind = "decoder"
) -> AttentionRecord:
    """A record of one stack; weights: [H, Q, K] of each layer."""
    ids = ids or list(range(6, 6 + len(allowed)))
    maps = tuple(
        AttentionMap(SITES[kind].format(layer), kind, layer, each, allowed) for layer, each in enumerate(weights)
    )
    tokens = row(ids, kind == "decoder")
    return AttentionRecord(maps, tokens if kind == "encoder" else None, tokens if kind == "decoder" else None)


class Pretended(Inspector):
    """Shows made-up attention: a function gives the weights of a stack [H, Q, K] for ids."""

    def __init__(
        self, weights: Callable[[Sequence[int]], Tensor], kind: AttentionKind = "decoder", length: int = 64
    ) -> None:
        row_format: Any = "lm_window" if kind == "decoder" else "classification"
        reader = ExampleReader(Tokenizers.one(Numbers()), row_format, length)  # type: ignore[arg-type]
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "shown", kind)
        super().__init__(None, reader)  # type: ignore[arg-type]

    def uniform_attention(self) -> Inspector:
        def alike(ids: Sequence[int]) -> Tensor:
            weights: Tensor = self.weights(ids)  # type: ignore[attr-defined]
            allowed = causal(len(ids)) if self.shown == "decoder" else everything(len(ids))  # type: ignore[attr-defined]
            return even(allowed).expand(len(weights), -1, -1)

        return Pretended(alike, self.shown, self.reader.length)  # type: ignore[attr-defined]

    def run(self, rows: Sequence[ExampleIds]) -> list[AttentionRecord]:
        found = []
        for each in rows:
            ids = [1, *each.source] if self.shown == "decoder" else [1, *each.source, 2]  # type: ignore[attr-defined]
            weights: Tensor = self.weights(ids)  # type: ignore[attr-defined]
            allowed = causal(len(ids)) if self.shown == "decoder" else everything(len(ids))  # type: ignore[attr-defined]
            found.append(own([weights], allowed, ids, self.shown))  # type: ignore[attr-defined]
        return found
