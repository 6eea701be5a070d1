"""Where commands print: results to standard output, mistakes to standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from kit.explaining.wording import quantity as quantity

errors = Console(stderr=True)
WIDE = 120
"""How wide a page is taken to be where no terminal says it."""


class _Page(Console):
    """Prints into a file or to another program: a table too wide for a page is as wide as its words need."""

    def print(self, *objects: Any, **how: Any) -> None:
        for table in objects:
            if isinstance(table, Table):
                self._keep_words(table)
        super().print(*objects, **{"crop": False, **how})

    def _keep_words(self, table: Table) -> None:
        """Rich would cut words to fit. They are kept; where they alone are wider than a page, nothing is wrapped."""
        unlimited = self.options.update(width=sys.maxsize)
        wraps = Measurement.get(self, unlimited, table).minimum <= self.width
        for column in table.columns:
            sizes = [Measurement.get(self, unlimited, cell) for cell in (column.header, *column.cells, column.footer)]
            needed = max(size.minimum if wraps and not column.no_wrap else size.maximum for size in sizes)
            column.min_width = max(column.min_width or 0, needed)


def screen() -> Console:
    """Standard output as it is now; wide where no terminal says how wide it is."""
    return Console() if sys.stdout.isatty() else _Page(width=WIDE)


def print_json(data: Any) -> None:
    """Data for a program."""
    print(json.dumps(data, indent=2, ensure_ascii=False))
