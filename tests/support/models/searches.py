"""Every search that is installed, with settings that make it do something, and the models they write with."""

from __future__ import annotations

from typing import Any

import torch

from kit import Search, Special
from models.tiny_models import KIT

SETTINGS: dict[str, dict[str, Any]] = {
    "beam": {"size": 4, "nbest": 4},
    "sample": {"samples": 3, "seed": 1, "top_k": 20},
    "exhaustive": {"nbest": 5},
    "speculative": {"draft": "another"},
}
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "beam in groups": ("beam", {"size": 4, "groups": 2, "nbest": 4, "diversity": 0.7}),
    "beam to the end": ("beam", {"size": 3, "nbest": 3, "stop": "certain", "penalty": "gnmt"}),
    "sample of typical": ("sample", {"typical": 0.6, "temperature": 1.3}),
}


def make_search(name: str, settings: dict[str, Any]) -> Search:
    component: Any = KIT.registry.find("search", name).component
    search: Search = component(component.options_type(**settings))
    return search


SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    part.name: (part.name, SETTINGS.get(part.name, {})) for part in KIT.registry.components("search")
} | MORE


def sharpen(model: Any, end: float = 0.0) -> Any:
    """Scores far enough apart that no search stands before a tie; end: what the end is made likelier by."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        if end:
            model.head.bias[Special.END] += end
    return model


def begin(model: Any, source: Any) -> Any:
    """A session: over a source where the model reads one."""
    return model.start(source) if hasattr(model, "encode") else model.start()
