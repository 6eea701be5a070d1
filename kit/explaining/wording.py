"""Figures in words that a person can read, for the command line and for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kit.explaining.cost import Cost


def quantity(number: float, unit: str = "") -> str:
    """A number a person can read: 65.1 M, 3.2 GB."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:,.1f} {letter}{unit}"
    return f"{number:,.0f} {unit}".strip()


def cost_rows(cost: Cost) -> dict[str, str]:
    """The figures of a cost, in words."""
    return {
        "parameters": f"{cost.parameters:,}",
        f"FLOPs a token (forward, {cost.length} tokens)": quantity(cost.flops_a_token),
        "state a token written": quantity(cost.state_bytes_a_token, "B"),
        "state a text, fixed": quantity(cost.state_bytes_fixed, "B"),
        "training memory: weights, gradients, Adam": quantity(cost.fixed_bytes, "B"),
        f"training memory a text of {cost.length} tokens": quantity(cost.activation_bytes, "B"),
    }
