"""Exceptions for mistakes of the user; each says what to do, and `kit` prints it without a traceback.

Exit codes follow pytest's: 2 for wrong input, 3 for a broken plugin, 4 for a component or plugin that is not installed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

MAX_LINE = 2_000
"""The longest line of a message, in characters; the middle of a longer one is left out."""
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Characters without a glyph that Unicode counts as letters, marks or symbols."""


def printable(text: str) -> str:
    """A message with its long lines cut, and every character that cannot be seen escaped and named."""
    lines = [line if len(line) <= MAX_LINE else f"{line[:1500]} ... {line[-400:]}" for line in text.split("\n")]
    odd = [each for each in dict.fromkeys("".join(lines)) if not each.isprintable() or _BLANK.match(each)]
    escapes = {ord(each): each.encode("unicode_escape").decode() for each in odd}
    named = [f"{escapes[ord(each)]} ({unicodedata.name(each, 'CONTROL CODE')})" for each in odd if each not in "\t\r"]
    if named:
        lines.append(f"    it holds what cannot be seen: {', '.join(named[:4])}; delete it unless it is meant")
    return "\n".join(lines).translate(escapes)


class KitError(Exception):
    """A mistake with an explanation; `exit_code` is the exit code of `kit`."""

    exit_code = 2

    def __str__(self) -> str:
        return printable(super().__str__())


class PluginError(KitError):
    """A plugin is broken: its import fails, or what it registers is not valid."""

    exit_code = 3


class PartNotFound(KitError):
    """No installed plugin brings the requested component."""

    exit_code = 4


@dataclass(frozen=True)
class Problem:
    """One mistake in a recipe: its location, what was found, what was wanted, and a hint."""

    message: str
    """What was found and what was wanted."""
    path: tuple[str | int, ...] = ()
    """The path in the recipe, such as ("model", "encoder", "attention", "heads")."""
    source: str | None = None
    """The file, or the command-line override, that the value comes from."""
    line: int | None = None
    """The line in `source`, counted from 1."""
    hint: str | None = None
    """What to type instead, if known."""

    @property
    def dotted(self) -> str:
        """The path as an override spells it: model.encoder.layers[2].norm."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
        return text

    def __str__(self) -> str:
        where = f"{self.source or 'recipe'}:{self.line}" if self.line is not None else (self.source or "recipe")
        where = (f"{where}: {self.dotted}" if self.path else where).replace("\n", "\\n")
        return printable(f"{where}: {self.message}\n    {self.hint}" if self.hint else f"{where}: {self.message}")


class RecipeError(KitError):
    """A recipe is wrong in one or more places; all of them are listed."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
