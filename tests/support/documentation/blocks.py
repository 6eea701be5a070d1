"""Takes a page of the documentation apart: its code blocks, each with the mark that says what is done with it.

A mark is a comment in the line above a block, which readers do not see:

    <!-- file: recipe.yaml -->      the block is written to that file; a recipe or a study is checked
    <!-- shown: kit-x/part.py -->   the block is an excerpt of that file, which is there already
    <!-- fragment: recipe.yaml -->  YAML that changes that recipe; both together are checked
    <!-- printed -->                what the Python block above printed; `printed: loosely` leaves numbers open
    <!-- output: loosely -->        a console block whose numbers may differ
    <!-- not run: a reason -->      only its commands are checked: that they exist, with these options

Without a mark, Python is run, YAML is a whole recipe, and a console block is run where its commands start with `$`, and
else only checked. A line `...` in what is shown stands for any lines.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
NEEDS = re.compile(r"<!-- needs: (?P<what>[^>]+?) -->")
_BLOCK = re.compile(
    r"^(?:(?P<margin> *)<!-- (?P<mark>[a-z ]+?)(?:: (?P<what>[^\n]+?))? -->\n)?"
    r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```[ ]*$",
    re.DOTALL | re.MULTILINE,
)
MARKS = {"", "file", "shown", "fragment", "printed", "output", "not run"}
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?[kMGT](?=B?\b))?")


@dataclass(frozen=True)
class Block:
    """One code block of a page."""

    mark: str
    what: str
    language: str
    text: str
    line: int

    def commands(self) -> list[tuple[str, str]]:
        """Each command of a console block with what is shown below it."""
        pieces = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        return [(command.strip(), output) for command, _, output in (piece.partition("\n") for piece in pieces)]


def pages() -> list[Path]:
    """Every page that a person wrote."""
    return sorted(path for path in DOCS.rglob("*.md") if "reference" not in path.relative_to(DOCS).parts)


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text, found = page.read_text(encoding="utf-8"), []
    for match in _BLOCK.finditer(text):
        mark, what = match["mark"] or "", match["what"] or ""
        line = text.count("\n", 0, match.start()) + 1
        assert mark in MARKS, f"{page}:{line}: no mark is called {mark!r}; the marks are {sorted(MARKS)}"
        inside = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        found.append(Block(mark, what, match["language"], inside, line))
    return found


def refilled(page: Path, outputs: dict[int, str]) -> str:
    """The text of a page with other texts in the blocks at these lines."""
    text = page.read_text(encoding="utf-8")

    def replaced(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start()) + 1
        if line not in outputs:
            return match[0]
        inside = textwrap.indent(outputs[line], match["indent"])
        start, end = match.start("text") - match.start(), match.end("text") - match.start()
        return match[0][:start] + inside + match[0][end:]

    return _BLOCK.sub(replaced, text)


def needs(page: Path) -> list[str]:
    """What a page wants to find in its folder before its first block."""
    return [match["what"] for match in NEEDS.finditer(page.read_text(encoding="utf-8"))]


def agrees(shown: str, printed: str, loosely: bool = False) -> bool:
    """Whether a page shows what was printed; ends of lines do not count."""
    wanted, found = ([_plain(line, loosely) for line in text.strip("\n").splitlines()] for text in (shown, printed))
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + r"\n" for line in wanted)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in found)) is not None


def _plain(line: str, loosely: bool) -> str:
    return " ".join(_NUMBER.sub("#", line).split()) if loosely else line.rstrip()
