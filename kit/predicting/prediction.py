"""What a model makes of a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Output:
    """One answer."""

    text: str
    """What was written; a text whose holes were filled; or the name of a class."""
    score: float
    """What it was ranked by: a log-probability, unless the search says otherwise; of a class, its probability."""
    tokens: tuple[str, ...] = ()
    """The tokens that were written or filled in; of a class, none."""
    finished: bool = True
    """Whether it ended by itself; False where it was cut at the most tokens."""


@dataclass(frozen=True)
class Prediction:
    """The answers to one text."""

    input: str
    """What was given."""
    outputs: tuple[Output, ...]
    """The answers, the best first; at least one."""
    problem: str = ""
    """Why the input was not read as it is: it was cut, something in it is unknown; empty where it was."""

    @property
    def text(self) -> str:
        """The best answer."""
        return self.outputs[0].text
