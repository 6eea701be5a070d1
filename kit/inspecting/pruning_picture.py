"""The curve of pruning as a picture: an order of heads, with random orders beside it."""

from __future__ import annotations

from pathlib import Path

from kit.inspecting.pruning import Curve


def draw_curve(shown: Curve, by: str, taken: int, path: Path) -> Path | None:
    """Write a PNG; taken: how many heads were taken out. None where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    panel = figure.subplots()
    panel.fill_between(shown.removed, shown.random_low, shown.random_high, color="#999999", alpha=0.25, linewidth=0)
    panel.plot(shown.removed, shown.random, color="#777777", label="random orders, from least to most", linestyle="--")
    panel.plot(shown.removed, shown.loss, color="#0072B2", label=f"by {by}", marker="o", markersize=3.5)
    panel.axvline(taken, color="#D55E00", linewidth=1, label="taken out")
    panel.set_xlabel("heads masked")
    panel.set_ylabel("loss, nats a prediction")
    panel.legend(frameon=False, fontsize=8)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    figure.savefig(path, dpi=150)
    return path
