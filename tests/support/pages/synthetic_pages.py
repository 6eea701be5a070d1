"""Pages of attention that was made by hand, so that every cell is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from models.synthetic_attention import SITES, causal, even, everything, own, previous, row, sink
from torch import Tensor

from kit import AttentionKind, AttentionMap, AttentionRecord, TokenRow
from kit.contracts.probe import Drawing
from kit_inspect.head_report import Estimate, HeadCard, HeadDistances, Report
from kit_inspect.page.html import MAX_BYTES, Page, render
from kit_inspect.page.view import ModelView, PageView

EVIL = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "שלום",
    "مرحبا",
    "{{script}}",
    "&amp;",
    "\n",
)
"""Tokens that would break a page that takes them for markup, and two that are read from the right."""


def steps_of(size: int) -> Tensor:
    """A head whose weights go up by row: row 0 all on itself, and in row 1 a quarter on the token before."""
    weights = torch.eye(size, dtype=torch.float64)
    if size > 1:
        weights[1, 0], weights[1, 1] = 0.25, 0.75
    return weights


def known(size: int, tokens: Sequence[str] | None = None) -> AttentionRecord:
    """A decoder of two layers: a head that looks back, one that looks at the first; an even one, and one by row."""
    mask = causal(size)
    layers = [torch.stack([previous(size), sink(size)]), torch.stack([even(mask), steps_of(size)])]
    record = own(layers, mask)
    assert record.target is not None
    return record if tokens is None else replace(record, target=named(record.target, tokens))


def named(found: TokenRow, tokens: Sequence[str]) -> TokenRow:
    words = [*tokens, *found.tokens[len(tokens) :]]
    return replace(found, tokens=tuple(words), next_tokens=(*words[1:], "end"))


def pair(sources: int = 5, targets: int = 4) -> AttentionRecord:
    """A source and a target: the target copies the source backwards."""
    back = torch.zeros(targets, sources, dtype=torch.float64)
    back[torch.arange(targets), sources - 1 - torch.arange(targets)] = 1.0
    layers: list[tuple[AttentionKind, Tensor, Tensor]] = [
        ("encoder", torch.stack([previous(sources), sink(sources)]), everything(sources)),
        ("decoder", torch.stack([previous(targets), even(causal(targets))]), causal(targets)),
        ("cross", torch.stack([back, even(everything(targets, sources))]), everything(targets, sources)),
    ]
    maps = tuple(AttentionMap(SITES[kind].format(0), kind, 0, weights, allowed) for kind, weights, allowed in layers)
    source, target = row(range(10, 10 + sources)), row(range(20, 20 + targets), writes=True)
    return AttentionRecord(maps, source, target, {"decoder.1.attention": "it keeps no weights"}, generated=True)


def noise(layers: int, heads: int, size: int, seed: int = 0) -> AttentionRecord:
    """An encoder whose heads prefer something at random: what compresses worst."""
    made = torch.Generator().manual_seed(seed)
    weights = [torch.randn(heads, size, size, generator=made, dtype=torch.float64).softmax(-1) for _ in range(layers)]
    return own(weights, everything(size), list(range(6, 6 + size)), "encoder")


def measured(record: AttentionRecord, plus: float = 0.0) -> Report:
    """A report with three shares that sum to one, and a measure with everything around it."""
    cards, alike = [], []
    for found in record.maps:
        for head in range(found.heads):
            some = (found.layer + head) / 10 + plus
            shares = {"near": 0.5 + some / 2, "far": 0.25 - some / 4, "else": 0.25 - some / 4}
            numbers = {name: Estimate(value) for name, value in shares.items()}
            numbers["sharpness"] = Estimate(0.5 + some, 0.4 + some, 0.6 + some, 0.1, 0.2)
            cards.append(HeadCard(found.site, found.kind, found.layer, head, numbers, "looks <b>back</b>"))
    for kind in dict.fromkeys(found.kind for found in record.maps):
        names = tuple((card.site, card.head) for card in cards if card.kind == kind)
        apart = 1 - torch.eye(len(names), dtype=torch.float64)
        alike.append(HeadDistances("likeness", kind, names, apart * 0.5, tuple(range(len(names)))))
    meanings = {name: f"what {name} is" for name in ("near", "far", "else", "sharpness")}
    return Report(tuple(cards), tuple(alike), 12, meanings)


def side(record: AttentionRecord, name: str = "made/1", plus: float = 0.0) -> ModelView:
    """A model with a picture of the whole text."""
    tokens = (record.target or record.source).tokens  # type: ignore[union-attr]
    size = len(tokens)
    drawing = Drawing("rolled out", tokens, tokens, 3 * torch.eye(size, dtype=torch.float64), "Up to three.")
    return ModelView(name, record, measured(record, plus), (drawing,))


def made(*sides: ModelView, most: int = MAX_BYTES) -> Page:
    """The page of one or two models."""
    return render(PageView("some text", sides, (("near", "far", "else"),), ("A note.",)), most)


def written(folder: Path, *sides: ModelView, most: int = MAX_BYTES) -> str:
    """The same in a file: its address."""
    return made(*sides, most=most).write(folder / "page.html").as_uri()
