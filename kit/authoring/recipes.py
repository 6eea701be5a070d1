"""What a recipe that tries one part is made of: that part, and around it the yardsticks of the other kinds."""

from __future__ import annotations

from kit.errors import KitError
from kit.registry import Registered, Registry

SMALL = {"train": 2000, "validation": 50, "test": 50, "longest": 8}
"""Sizes of the data, where it has such options: a minute of a laptop's time."""


def recipe_words(name: str, kind: str, registry: Registry) -> dict[str, str]:
    """The value of each slot, as YAML; empty where the recipe needs no such line."""

    def chosen(of: str) -> str:
        return name if of == kind else _usual(registry, of).name

    layer = (
        f"attention: {{use: {chosen('attention')}, heads: 4}}, feedforward: {chosen('feedforward')}, "
        f"residual: {chosen('residual')}"
    )
    masks = [_usual(registry, "mask").name, *([name] if kind == "mask" else [])]
    words = {
        **{of: chosen(of) for of in ("attention", "position", "norm", "feedforward", "residual", "embedding", "head")},
        **{of: chosen(of) for of in ("tokenizer", "optimizer", "schedule")},
        "encoder": f"{{use: {name}, depth: 1}}" if kind == "stack" else f"{{depth: 1, {layer}}}",
        "masks": ", ".join(masks),
        "data": name if kind == "data" else _small_data(registry),
        "objective": name if kind == "objective" else "",
        "metrics": name if kind == "metric" else "",
        "regularizers": name if kind == "regularizer" else "",
        "search": _search(name, kind, registry),
    }
    return {**words, "usage": _usage(name, kind)}


def _usual(registry: Registry, kind: str) -> Registered:
    """The yardstick of a kind, else any part of it."""
    parts = registry.components(kind)
    if not parts:
        raise KitError(f"no {kind} is installed, and the recipe of a new package needs one around its part")
    return registry.yardstick(kind) or parts[0]


def _small_data(registry: Registry) -> str:
    data = _usual(registry, "data")
    fields = data.component.options_type.model_fields
    small = "".join(f", {option}: {size}" for option, size in SMALL.items() if option in fields)
    return f"{{use: {data.name}{small}}}"


def _search(name: str, kind: str, registry: Registry) -> str:
    if kind == "search":
        return name
    if kind == "constraint":
        return f"{{use: {_usual(registry, 'search').name}, constraints: [{name}]}}"
    return ""


def _usage(name: str, kind: str) -> str:
    """The line of a recipe that selects it, where a recipe does."""
    lines = {
        "mask": f"masks: [{name}]",
        "metric": f"metrics: [{name}]",
        "stack": f"encoder: {{use: {name}}}",
        "constraint": f"search: {{constraints: [{name}]}}",
        "regularizer": f"model: {{regularizers: [{name}]}}",
        "optimizer": f"training: {{optimizer: {name}}}",
        "schedule": f"training: {{schedule: {name}}}",
        "objective": f"training: {{objective: {name}}}",
        "exporter": f"# no recipe names an exporter; it is for trained models: kit export RUN --to {name}",
        "probe": f"# no recipe names a probe; it is for trained models: kit inspect RUN, with the probe {name}",
        "measure": f"# a study names it among its measures: {name}",
    }
    return lines.get(kind, f"{kind}: {name}")
