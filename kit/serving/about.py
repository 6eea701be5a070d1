"""What a server tells of itself: which run answers, what it can do, and a few texts to try."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.runs.directory import RunDirectory

if TYPE_CHECKING:
    from kit.predicting.predictor import Predictor

EXAMPLES = 6
"""How many texts are offered."""
_SHORT = 80
"""The most characters of a text that is offered."""


@dataclass(frozen=True)
class About:
    """The run behind a server."""

    run: str
    task: str
    parameters: int
    description: str = ""
    examples: tuple[str, ...] = ()

    @classmethod
    def of(cls, predictor: Predictor, examples: Sequence[str] = ()) -> About:
        """Ask a predictor; examples: texts to offer, where they are not to be found in the run."""
        opened = predictor.run
        parameters = sum(parameter.numel() for parameter in opened.model.parameters())
        offered = tuple(examples) or examples_of(opened.run)
        return cls(opened.run.label, predictor.task, parameters, opened.recipe.description, offered)


def examples_of(run: RunDirectory) -> tuple[str, ...]:
    """Texts that were held out of training, from all over the report that the end of training leaves in a run."""
    found = list(dict.fromkeys(text for text in _reported(run) if 0 < len(text) <= _SHORT and text.isprintable()))
    return tuple(found[:: max(1, len(found) // EXAMPLES)][:EXAMPLES])


def _reported(run: RunDirectory) -> Iterator[str]:
    for path in sorted(run.reports.glob("*_answers.jsonl")):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            yield from (str(json.loads(line)["source"]) for line in lines)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a report that somebody edited is no reason not to serve
