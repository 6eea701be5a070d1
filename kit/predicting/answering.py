"""Three ways in which a model answers: it writes, it fills in, or it names a class.

Shapes: B texts, L tokens, V choices, C classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kit.contracts.objective import Objective
from kit.contracts.search import Hypothesis
from kit.contracts.tokenizer import Special, Tokenizer
from kit.data.batch import Batch
from kit.decoding.building import Writer
from kit.errors import KitError
from kit.model.families import Model
from kit.predicting.prediction import Output
from kit.predicting.reading import Reading

Outputs = tuple[Output, ...]


class Answering(ABC):
    """Answers a batch of texts."""

    @abstractmethod
    def answer(self, batch: Batch, readings: Sequence[Reading]) -> list[Outputs]:
        """For each text its answers, the best first; at least one."""


@dataclass(frozen=True)
class Writes(Answering):
    """By writing: an answer to a source, or how a text goes on."""

    model: Model
    objective: Objective
    tokenizer: Tokenizer
    writer: Writer
    length: int
    """The longest row the model is made for."""
    most: int
    """How many answers are given for a text."""
    draft: Model | None = None
    """A smaller model that guesses, for searches that let one."""

    def answer(self, batch: Batch, readings: Sequence[Reading]) -> list[Outputs]:
        """What the search finds."""
        begun = self.objective.begin(self.model, batch)
        if begun is None:
            raise KitError(f"the objective {self.objective.part_name()} does not say how an answer is begun")
        session, first = begun
        drafted = None if self.draft is None else self.objective.begin(self.draft, batch)
        rows, width = first.ids.shape
        read = [width] * rows if first.valid is None else first.valid.sum(1).tolist()
        longest = self.writer.search.options.length
        limits = [max(1, min(longest, self.length - tokens)) for tokens in read]
        draft = None if drafted is None else drafted[0]
        found = self.writer.write(session, limits, first, draft=draft, streams=batch.indices)
        return [tuple(map(self._output, hypotheses[: self.most])) for hypotheses in found]

    def _output(self, hypothesis: Hypothesis) -> Output:
        tokens = tuple(map(self.tokenizer.token, hypothesis.tokens))
        return Output(self.tokenizer.decode(hypothesis.tokens), hypothesis.score, tokens, hypothesis.finished)


@dataclass(frozen=True)
class Fills(Answering):
    """By filling each hole with a token, independently of the others; a score is the log-probability of them all."""

    model: Model
    tokenizer: Tokenizer
    most: int

    def answer(self, batch: Batch, readings: Sequence[Reading]) -> list[Outputs]:
        """The likeliest ways to fill all holes of each text."""
        scores_BLV: Any = self.model(batch.source)
        return [self._filled(scores_LV, reading) for scores_LV, reading in zip(scores_BLV, readings, strict=True)]

    def _filled(self, scores_LV: Tensor, reading: Reading) -> Outputs:
        ways: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        for place, _, _ in reading.holes:
            log_p_V = scores_LV[place].float().log_softmax(0)
            log_p_V[: len(Special)] = float("-inf")
            best = log_p_V.topk(min(self.most, len(log_p_V) - len(Special)))
            choices = list(zip(best.values.tolist(), best.indices.tolist(), strict=True))
            longer = [(score + gain, (*tokens, token)) for score, tokens in ways for gain, token in choices]
            ways = sorted(longer, key=lambda way: -way[0])[: self.most]
        return tuple(Output(self._text(reading, ids), score, self._names(ids)) for score, ids in ways)

    def _names(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(map(self.tokenizer.token, ids))

    def _text(self, reading: Reading, ids: Sequence[int]) -> str:
        """The text as it was given, but for its holes; one that was not read stays."""
        text, at = "", 0
        for (_, start, stop), token in zip(reading.holes, ids, strict=True):
            text += reading.text[at:start] + self.tokenizer.decode([token])
            at = stop
        return text + reading.text[at:]


@dataclass(frozen=True)
class Names(Answering):
    """By naming the likeliest classes, with their probabilities."""

    model: Model
    labels: Sequence[str]
    most: int

    def answer(self, batch: Batch, readings: Sequence[Reading]) -> list[Outputs]:
        """The likeliest classes of each text."""
        p_BC: Tensor = torch.softmax(self.model(batch.source, packed=True).float(), 1)
        best = p_BC.topk(min(self.most, p_BC.shape[1]))
        rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        return [tuple(map(self._output, values, numbers)) for values, numbers in rows]

    def _output(self, probability: float, number: int) -> Output:
        return Output(self.labels[number] if number < len(self.labels) else str(number), probability)
