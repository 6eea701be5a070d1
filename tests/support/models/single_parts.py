"""One part by itself, built as a model would build it, and scopes to run it in."""

from __future__ import annotations

from typing import Any

import torch

from kit import AttentionContext, BatchLayout, BuildContext, Dims, Options, Problem, TokenBatch
from kit.model.builder import ModelBuilder
from models.tiny_models import KIT


def build_context(causal: bool = False) -> BuildContext:
    return BuildContext(
        ModelBuilder(KIT.registry),
        ("model", "here"),
        stack="decoder" if causal else "encoder",
        role="part",
        causal=causal,
    )


def dims(**sizes: Any) -> Dims:
    return Dims(**{"width": 32, "heads": 4, "head_dim": 8, "length": 64, **sizes})


def single_part(options: Options, causal: bool = False, **sizes: Any) -> Any:
    """The part, in float64, the same every time."""
    torch.manual_seed(0)
    part = build_context(causal).build(options, dims(**sizes))
    return part.double() if hasattr(part, "double") else part


def problems(options: Options, causal: bool = False, **sizes: Any) -> list[Problem]:
    """What a recipe with these options would be told."""
    return list(build_context(causal).check(options, dims(**sizes)))


def attention_context(tokens: TokenBatch | torch.Tensor, mask: Any = None, packed: bool = False) -> AttentionContext:
    """A scope of these tokens looking at themselves."""
    layout = BatchLayout.of(TokenBatch.of(tokens))
    layout = layout.packed() if packed else layout
    return AttentionContext(layout, layout, mask)
