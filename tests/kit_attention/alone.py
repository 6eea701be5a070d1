"""An attention by itself, without a model around it, and the rows it is asked about."""

from __future__ import annotations

from typing import Any

import torch
from models.tiny_models import KIT
from torch import Tensor

from kit import (
    AttentionContext,
    AttentionObserver,
    BatchLayout,
    BuildContext,
    Dims,
    Options,
    Position,
    Problem,
    TokenBatch,
)
from kit.model.builder import ModelBuilder
from kit_mask.causal import CausalMask

ASSEMBLY = ModelBuilder(KIT.registry)


def build_context(layer: int = 0) -> BuildContext:
    """A place in some decoder."""
    return BuildContext(ASSEMBLY, ("attention",), stack="decoder", role="attention", layer=layer, depth=4)


def attention(options: Options, width: int = 12, memory: int | None = None, layer: int = 0, length: int = 16) -> Any:
    """The part in float64, in evaluation mode, with biases that are not zero."""
    torch.manual_seed(3)
    part = build_context(layer).build(options, Dims(width, memory, length=length))
    for name, parameter in part.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    return part.double().eval()


def problems(options: Options, width: int = 12, length: int = 16) -> list[Problem]:
    """What is said against these options when a recipe is read."""
    return list(build_context().check(options, Dims(width, length=length)))


def layout(*lengths: int, left: bool = False) -> BatchLayout:
    """Rows of these lengths, padded to the longest."""
    longest = max(lengths)
    places = torch.arange(longest)[None]
    sizes = torch.tensor(lengths)[:, None]
    padding_mask = places >= longest - sizes if left else places < sizes
    return BatchLayout.of(TokenBatch(torch.zeros(len(lengths), longest, dtype=torch.long), padding_mask))


def context(
    queries: BatchLayout,
    causal: bool = False,
    position: Position | None = None,
    keys: BatchLayout | None = None,
    observer: AttentionObserver | None = None,
) -> AttentionContext:
    """What the queries of these rows see."""
    return AttentionContext(queries, keys or queries, CausalMask() if causal else None, position, observer)


def vectors(rows: int, length: int, width: int = 12, seed: int = 0) -> Tensor:
    """Random token vectors in float64."""
    return torch.randn(rows, length, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def heads(linear: torch.nn.Linear, x_LD: Tensor, sizes: tuple[int, ...], counts: tuple[int, ...]) -> list[Tensor]:
    """The pieces of a fused projection of one row, each [heads, L, width of a head], cut by hand."""
    projected = x_LD @ linear.weight.T + (0 if linear.bias is None else linear.bias)
    pieces, first = [], 0
    for size, count in zip(sizes, counts, strict=True):
        piece = projected[:, first : first + size]
        width = size // count
        pieces.append(torch.stack([piece[:, n * width : (n + 1) * width] for n in range(count)]))
        first += size
    assert first == projected.shape[1]
    return pieces


def sees(q: int, k: int, causal: bool) -> bool:
    """The causal mask, as one pair at a time."""
    return k <= q or not causal
