"""Fills the marked console blocks of the README with what the commands print now: `make readme`."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import test_readme as readme  # noqa: E402


def main() -> None:
    """Rewrite README.md."""
    with tempfile.TemporaryDirectory() as place:
        folder = readme.unpacked(Path(place))

        def filled(match: re.Match[str]) -> str:
            block = readme.Block(match["mark"], match["what"], match["text"])
            if block.mark != "output":
                return match[0]
            told = [f"$ {command}\n{readme.printed(command, block, folder).strip()}\n" for command, _ in block.commands()]
            return match[0].replace(block.text, "\n".join(told))

        path = ROOT / "README.md"
        path.write_text(readme.BLOCK.sub(filled, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
