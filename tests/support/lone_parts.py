"""One part by itself, built as a model would build it, and scopes to run it in."""

from __future__ import annotations

from typing import Any

import torch
from builders import KIT

from kit import Dims, Layout, Options, Problem, Scope, Site, Tokens
from kit.model.assembly import Assembly


def site(causal: bool = False) -> Site:
    return Site(
        Assembly(KIT.registry), ("model", "here"), stack="decoder" if causal else "encoder", role="part", causal=causal
    )


def dims(**sizes: Any) -> Dims:
    return Dims(**{"width": 32, "heads": 4, "head_width": 8, "length": 64, **sizes})


def lone(options: Options, causal: bool = False, **sizes: Any) -> Any:
    """The part, in float64, the same every time."""
    torch.manual_seed(0)
    part = site(causal).build(options, dims(**sizes))
    return part.double() if hasattr(part, "double") else part


def problems(options: Options, causal: bool = False, **sizes: Any) -> list[Problem]:
    """What a recipe with these options would be told."""
    return list(site(causal).check(options, dims(**sizes)))


def scope_of(tokens: Tokens | torch.Tensor, mask: Any = None, packed: bool = False) -> Scope:
    """A scope of these tokens looking at themselves."""
    layout = Layout.of(Tokens.of(tokens))
    layout = layout.packed() if packed else layout
    return Scope(layout, layout, mask)
