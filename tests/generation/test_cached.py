"""Writing with a state gives what running the whole model for every token gives, for every attention that steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.searches import SEARCHES, begin, make_search, sharpen
from models.tiny_models import KIT, build
from torch import Tensor

from kit import RecipeError, Request, TokenBatch
from kit.sequence.batch_layout import last_token
from kit_position.none import NoneOptions

LENGTHS = (5, 1, 8)


class Uncached:
    """A decoder without any state: the whole model runs over all tokens, for every step."""

    device = torch.device("cpu")

    def __init__(self, model: Any, source: TokenBatch | None, rows: int) -> None:
        self.model, self.source = model, source
        self.read: TokenBatch | None = None
        self.rows = rows
        self.vectors: Tensor | None = None

    def step(self, tokens: TokenBatch | Tensor, last: bool = False) -> Tensor:
        new = TokenBatch.of(tokens)
        self.read = new if self.read is None else joined(self.read, new)
        given = {"target": self.read} if self.source is None else {"source": self.source, "target": self.read}
        scores: Tensor = self.model(**given)[:, -new.ids.shape[1] :]
        session = begin(self.model, self.source)
        session.step(self.read)
        self.vectors = session.vectors[:, -new.ids.shape[1] :]
        return last_token(scores, new.padding_mask)[:, None] if last else scores

    def reorder(self, rows: Tensor) -> None:
        self.rows = rows.shape[0]
        self.read = None if self.read is None else chosen(self.read, rows)
        self.source = None if self.source is None else chosen(self.source, rows)


def real(tokens: TokenBatch) -> Tensor:
    return torch.ones_like(tokens.ids, dtype=torch.bool) if tokens.padding_mask is None else tokens.padding_mask


def joined(before: TokenBatch, new: TokenBatch) -> TokenBatch:
    return TokenBatch(torch.cat([before.ids, new.ids], 1), torch.cat([real(before), real(new)], 1))


def chosen(tokens: TokenBatch, rows: Tensor) -> TokenBatch:
    return TokenBatch(tokens.ids[rows], None if tokens.padding_mask is None else tokens.padding_mask[rows])


def compare(model: Any, name: str, family: str) -> None:
    generator = torch.Generator().manual_seed(3)
    tokens = TokenBatch.from_lists([torch.randint(6, 12, (n,), generator=generator).tolist() for n in LENGTHS])
    reads = family == "encoder-decoder"
    request = Request(length=3 if name == "exhaustive" else 7, prompt=None if reads else tokens)
    found = []
    for cached in (True, False):
        source = tokens if reads else None
        decoders = [begin(model, tokens) if cached else Uncached(model, source, len(LENGTHS)) for _ in range(2)]
        asked = Request(length=request.length, prompt=request.prompt, draft=decoders[1])
        found.append(make_search(*SEARCHES[name]).search(decoders[0], asked))
    for ours, truth in zip(*found, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in truth]
        assert [each.score for each in ours] == pytest.approx([each.score for each in truth], abs=1e-8)


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
@pytest.mark.parametrize("name", SEARCHES)
def test_every_search(name: str, family: str) -> None:
    compare(sharpen(build(family, vocabulary=12 if name == "exhaustive" else 20)), name, family)


STEPPING = [
    part for part in KIT.registry.components("attention")
    if (able := part.component.capabilities).incremental and able.reads_self and able.masks
]  # fmt: skip


@pytest.mark.parametrize("part", STEPPING, ids=lambda part: part.name)
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
def test_every_attention(part: Any, family: str) -> None:
    fields = part.component.options_type.model_fields
    small = {name: value for name, value in {"heads": 4, "size": 3}.items() if name in fields}
    layer: dict[str, Any] = {"attention": part.component.options_type(**small)}
    if not part.component.capabilities.reads_memory and family == "encoder-decoder":
        layer["cross_attention"] = KIT.registry.find("attention", "softmax").component.options_type(heads=4)
    try:
        model = build(family, layer, vocabulary=20)
    except RecipeError:
        model = build(family, layer, vocabulary=20, position=NoneOptions())
    compare(sharpen(model), "beam", family)
