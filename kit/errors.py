"""Exceptions for mistakes of the user; each says what to do, and `kit` prints it without a traceback.

Exit codes follow pytest's: 2 for wrong input, 3 for a broken plugin, 4 for a component or plugin that is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class KitError(Exception):
    """A mistake with an explanation; `exit_code` is the exit code of `kit`."""

    exit_code = 2


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
        text = f"{where}: {self.dotted}: {self.message}" if self.path else f"{where}: {self.message}"
        return f"{text}\n    {self.hint}" if self.hint else text


class RecipeError(KitError):
    """A recipe is wrong in one or more places; all of them are listed."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
