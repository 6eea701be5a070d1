"""Where commands print: results to standard output, mistakes to standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

from kit.explaining.wording import quantity as quantity

errors = Console(stderr=True)


def screen() -> Console:
    """Standard output as it is now; wide where no terminal says how wide it is."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def print_json(data: Any) -> None:
    """Data for a program."""
    print(json.dumps(data, indent=2, ensure_ascii=False))
