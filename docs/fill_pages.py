"""Fills in what the pages show with what their blocks print now: `make pages`, or `python docs/fill_pages.py PAGE...`.

A block that leaves lines out with `...` is left alone; what else is wrong with a page is printed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "plugins")]

from documentation.blocks import Block, blocks, pages, refilled  # noqa: E402
from documentation.page_runner import Stage, play  # noqa: E402
from documentation.page_setup import set_up  # noqa: E402


def main() -> None:
    """Rewrite the pages that are named, or all."""
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or pages()
    with tempfile.TemporaryDirectory() as props:
        for page in chosen:
            with tempfile.TemporaryDirectory() as folder:
                stage = Stage(Path(folder))
                set_up(page, Path(folder), Path(props))
                found = blocks(page)
                problems = play(found, stage)
            outputs = {line: text for line, text in stage.outputs.items() if not _is_cut(found, line)}
            if outputs:
                page.write_text(refilled(page, outputs), encoding="utf-8")
            print(f"{page.relative_to(ROOT)}: {len(outputs)} of {len(problems)} mended", flush=True)
            for problem in problems:
                if not any(problem.startswith(f"line {line}: ") for line in outputs):
                    print(problem)


def _is_cut(found: list[Block], line: int) -> bool:
    text = next(block.text for block in found if block.line == line)
    return "..." in text.split()


if __name__ == "__main__":
    main()
