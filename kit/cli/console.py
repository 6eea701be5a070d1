"""Where commands print: results to standard output, mistakes to standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

errors = Console(stderr=True)


def screen() -> Console:
    """Standard output as it is now; wide where no terminal says how wide it is."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def print_json(data: Any) -> None:
    """Data for a program."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def quantity(number: float, unit: str = "") -> str:
    """A number a person can read: 65.1 M, 3.2 GB."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:,.1f} {letter}{unit}"
    return f"{number:,.0f} {unit}".strip()
