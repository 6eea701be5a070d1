"""Served run: a predictor with a fixed search, the description of its run, and the renderer of its attention pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from kit import KitError, LoadedRun, Prediction, Predictor

AttentionRenderer: TypeAlias = Callable[[str, str | None], tuple[str, str]]
"""Maps an input and an optional target to an HTML page and its content security policy."""
MAX_EXAMPLES = 6
"""The most example inputs that the web page offers."""
_MAX_CHARACTERS = 80
"""The most characters of an example input."""


@dataclass(frozen=True)
class RunDescription:
    """The description of a run in `GET /about`."""

    run: str
    task: str
    parameters: int
    description: str = ""
    examples: tuple[str, ...] = ()

    @classmethod
    def of(cls, predictor: Predictor, examples: Sequence[str] = ()) -> RunDescription:
        """Describes a predictor's run; examples: inputs to offer instead of held-out ones of the run."""
        loaded = predictor.run
        parameters = sum(parameter.numel() for parameter in loaded.model.parameters())
        offered = tuple(examples) or held_out_examples(loaded.run.reports)
        return cls(loaded.run.label, predictor.task, parameters, loaded.recipe.description, offered)


def held_out_examples(reports: Path) -> tuple[str, ...]:
    """Returns short held-out inputs, evenly spaced over the answer files in the reports of a run."""
    found = list(
        dict.fromkeys(text for text in _inputs(reports) if 0 < len(text) <= _MAX_CHARACTERS and text.isprintable())
    )
    return tuple(found[:: max(1, len(found) // MAX_EXAMPLES)][:MAX_EXAMPLES])


def _inputs(reports: Path) -> Iterator[str]:
    for path in sorted(reports.glob("*_answers.jsonl")):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            yield from (str(json.loads(line)["source"]) for line in lines)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # an invalid report does not prevent serving


@dataclass(frozen=True)
class ServedRun:
    """A predictor with the search of the recipe or of the operator.

    Requests cannot choose the search, since some searches take hours.
    """

    predictor: Predictor
    search: str | None = None

    def predict(self, inputs: Sequence[str], *, nbest: int = 1) -> list[Prediction]:
        """Predictions for a batch of inputs, in their order."""
        return self.predictor.predict(inputs, search=self.search, nbest=nbest)

    def largest_nbest(self, limit: int) -> int:
        """Returns the largest nbest, up to `limit`, that the search supports; an invalid search raises `KitError`."""
        self.predict([], nbest=1)
        for number in range(limit, 1, -1):
            try:
                self.predict([], nbest=number)
            except KitError:
                continue
            return number
        return 1


def attention_renderer(loaded: LoadedRun) -> AttentionRenderer | None:
    """Returns the attention renderer of the first plugin that implements `kit_attention_page`; None without any."""
    renderer: AttentionRenderer | None = loaded.kit.hooks.kit_attention_page(run=loaded)
    return renderer
