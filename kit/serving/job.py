"""The texts of one request on their way through the queue."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kit.predicting.prediction import Prediction


@dataclass(eq=False)
class Job:
    """The texts of one request, and where their answers go."""

    texts: Sequence[str]
    nbest: int
    future: Future[list[Prediction]] = field(default_factory=Future)
    taken: int = 0
    """How many of the texts were given to the model."""
    answers: dict[int, Prediction] = field(default_factory=dict)
    """The answers by place."""

    @property
    def waits(self) -> bool:
        """Whether somebody still wants this, and some of it has not been given to the model."""
        return not self.future.done() and self.taken < len(self.texts)

    def put(self, place: int, answer: Prediction) -> None:
        """An answer; with the last of them everything is given to whoever waits."""
        self.answers[place] = answer
        if len(self.answers) == len(self.texts) and self.future.set_running_or_notify_cancel():
            self.future.set_result([self.answers[place] for place in range(len(self.texts))])

    def take(self) -> Piece:
        """The next text, to be answered now."""
        self.taken += 1
        return Piece(self, self.taken - 1)


@dataclass(frozen=True)
class Piece:
    """One text of a job."""

    job: Job
    place: int

    @property
    def text(self) -> str:
        """The text."""
        return self.job.texts[self.place]
