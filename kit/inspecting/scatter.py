"""A picture of the vectors of one word: a point for each time it occurs, a colour for each sense, a panel a layer."""

from __future__ import annotations

from pathlib import Path

from kit.errors import KitError
from kit.inspecting.geometry import flat
from kit.inspecting.vectors import Occurrences

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Told apart by everybody (Okabe and Ito)."""


def draw(found: Occurrences, word: str, path: Path) -> None:
    """Write a PNG; found: the occurrences of that word alone."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise KitError("a picture needs matplotlib; type: pip install 'kitformer[plots]'") from error
    names = list(found.layers)
    figure = Figure(figsize=(3.2 * len(names), 3.4), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    senses = list(dict.fromkeys(found.senses))
    for panel, name in zip(panels, names, strict=True):
        points = flat(found.layers[name])
        for number, sense in enumerate(senses):
            chosen = [place for place, each in enumerate(found.senses) if each == sense]
            x, y = points[chosen].T.tolist()
            label = "all" if sense is None else sense
            panel.scatter(x, y, s=14, alpha=0.7, color=COLOURS[number % len(COLOURS)], label=label, linewidths=0)
        panel.set_title(name, fontsize=10)
        panel.set_xticks([])
        panel.set_yticks([])
        panel.margins(0.15)
    if senses != [None]:
        panels[0].legend(fontsize=8, frameon=False)
    figure.suptitle(f"{word}: {len(found.words)} times", fontsize=11)
    figure.savefig(path, dpi=150)
