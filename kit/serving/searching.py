"""The predictor of a run with the search that its server was started with, and how many answers that can give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.errors import KitError
from kit.predicting.prediction import Prediction
from kit.predicting.predictor import Predictor


@dataclass(frozen=True)
class Searching:
    """Answers as the recipe says, or as whoever started the server did; never as a request says, which could ask for
    a search that takes hours."""

    predictor: Predictor
    search: str | None = None

    def predict(self, inputs: Sequence[str], *, nbest: int = 1) -> list[Prediction]:
        """An answer to each text, in order."""
        return self.predictor.predict(inputs, search=self.search, nbest=nbest)

    def most(self, wished: int) -> int:
        """How many answers to a text there can be, of those wished for; a search that is wrong is an error here."""
        self.predict([], nbest=1)
        for number in range(wished, 1, -1):
            try:
                self.predict([], nbest=number)
            except KitError:
                continue
            return number
        return 1
