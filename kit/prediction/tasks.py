"""Prediction tasks: generation, mask filling and classification.

Shapes: B sequences, L tokens, V vocabulary, C classes.
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
from kit.errors import KitError
from kit.generation.generator import SequenceGenerator
from kit.model.families import Model
from kit.prediction.inputs import EncodedInput
from kit.sequence.batch import Batch


@dataclass(frozen=True)
class Output:
    """One ranked output of a prediction."""

    text: str
    """The generated text; the input with its masks filled; or the name of a class."""
    score: float
    """The score for ranking: the probability of a class, else a log-probability (unless the search defines another)."""
    tokens: tuple[str, ...] = ()
    """The tokens that were generated or filled in; empty for a class."""
    finished: bool = True
    """Whether an end token was generated; False if generation was cut at the length limit."""


Outputs = tuple[Output, ...]


class PredictionTask(ABC):
    """Predicts outputs for a batch of inputs."""

    @abstractmethod
    def predict(self, batch: Batch, inputs: Sequence[EncodedInput]) -> list[Outputs]:
        """Returns the outputs of each input, the best first; at least one."""


@dataclass(frozen=True)
class GenerateTask(PredictionTask):
    """Generates the target of a source, or the continuation of a prompt."""

    model: Model
    objective: Objective
    tokenizer: Tokenizer
    generator: SequenceGenerator
    length: int
    """The maximum sequence length of the model."""
    nbest: int
    """The most outputs of an input."""
    draft: Model | None = None
    """A draft model, for speculative decoding."""

    def predict(self, batch: Batch, inputs: Sequence[EncodedInput]) -> list[Outputs]:
        """Returns the hypotheses of each input."""
        started = self.objective.begin(self.model, batch)
        if started is None:
            raise KitError(f"the objective {self.objective.name()} does not say how an answer is begun")
        session, first = started
        draft_started = None if self.draft is None else self.objective.begin(self.draft, batch)
        rows, width = first.ids.shape
        read = [width] * rows if first.padding_mask is None else first.padding_mask.sum(1).tolist()
        longest = self.generator.search.options.length
        limits = [max(1, min(longest, self.length - tokens)) for tokens in read]
        draft = None if draft_started is None else draft_started[0]
        found = self.generator.generate(session, limits, first, draft=draft, streams=batch.indices)
        return [tuple(map(self._output, hypotheses[: self.nbest])) for hypotheses in found]

    def _output(self, hypothesis: Hypothesis) -> Output:
        tokens = tuple(map(self.tokenizer.token, hypothesis.tokens))
        return Output(self.tokenizer.decode(hypothesis.tokens), hypothesis.score, tokens, hypothesis.finished)


@dataclass(frozen=True)
class FillMaskTask(PredictionTask):
    """Fills masks with tokens independently; the score is the sum of their log-probabilities."""

    model: Model
    tokenizer: Tokenizer
    nbest: int

    def predict(self, batch: Batch, inputs: Sequence[EncodedInput]) -> list[Outputs]:
        """Returns the most probable fillings of each input."""
        logits_BLV: Any = self.model(batch.source)
        return [self._filled(logits_LV, each) for logits_LV, each in zip(logits_BLV, inputs, strict=True)]

    def _filled(self, logits_LV: Tensor, encoded: EncodedInput) -> Outputs:
        fillings: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        for index, _, _ in encoded.masks:
            log_p_V = logits_LV[index].float().log_softmax(0)
            log_p_V[: len(Special)] = float("-inf")
            best = log_p_V.topk(min(self.nbest, len(log_p_V) - len(Special)))
            choices = list(zip(best.values.tolist(), best.indices.tolist(), strict=True))
            longer = [(score + log_p, (*tokens, token)) for score, tokens in fillings for log_p, token in choices]
            fillings = sorted(longer, key=lambda filling: -filling[0])[: self.nbest]
        return tuple(Output(self._text(encoded, ids), score, self._names(ids)) for score, ids in fillings)

    def _names(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(map(self.tokenizer.token, ids))

    def _text(self, encoded: EncodedInput, ids: Sequence[int]) -> str:
        """Returns the input with its masks filled; masks in the truncated end stay."""
        text, at = "", 0
        for (_, start, stop), token in zip(encoded.masks, ids, strict=True):
            text += encoded.text[at:start] + self.tokenizer.decode([token])
            at = stop
        return text + encoded.text[at:]


@dataclass(frozen=True)
class ClassifyTask(PredictionTask):
    """Predicts the most probable classes, with their probabilities."""

    model: Model
    labels: Sequence[str]
    nbest: int

    def predict(self, batch: Batch, inputs: Sequence[EncodedInput]) -> list[Outputs]:
        """Returns the most probable classes of each input."""
        p_BC: Tensor = torch.softmax(self.model(batch.source, packed=True).float(), 1)
        best = p_BC.topk(min(self.nbest, p_BC.shape[1]))
        rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        return [tuple(map(self._output, values, numbers)) for values, numbers in rows]

    def _output(self, probability: float, number: int) -> Output:
        return Output(self.labels[number] if number < len(self.labels) else str(number), probability)
