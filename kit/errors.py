"""Every mistake a person can make, as an exception that says what to do; `kit` prints it without a traceback.

The exit codes follow pytest's: 2 for a mistake in what was given, 3 for a broken plugin, 4 for a part or plugin that is
not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class KitError(Exception):
    """A mistake that can be explained; `exit_code` is what `kit` ends with."""

    exit_code = 2


class PluginError(KitError):
    """A plugin is broken: it cannot be imported, or what it registers is not what the kit can use."""

    exit_code = 3


class PartNotFound(KitError):
    """No installed plugin brings the part that was asked for."""

    exit_code = 4


@dataclass(frozen=True)
class Problem:
    """One mistake in a recipe: where it is, what was found, what was wanted, and what to type instead."""

    message: str
    """What was found and what was wanted."""
    path: tuple[str | int, ...] = ()
    """The place in the recipe, such as ("model", "encoder", "attention", "heads")."""
    source: str | None = None
    """The file, or the command-line override, that the value came from."""
    line: int | None = None
    """The line in `source`, counted from 1."""
    hint: str | None = None
    """What to type instead, where that is known."""

    @property
    def dotted(self) -> str:
        """The path as a person would type it in an override: model.encoder.layers[2].norm."""
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
