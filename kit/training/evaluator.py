"""Evaluator: the loss and the metrics of a model on a split; and early stopping on one of these figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.distributed.fsdp import FSDPModule

from kit.contracts.data import Example
from kit.contracts.metric import Answer, Metric, Results
from kit.contracts.objective import Loss, Objective
from kit.contracts.tokenizer import Tokenizer
from kit.data.rows import ExampleRows
from kit.generation.generator import SequenceGenerator
from kit.kernels.rng_state import preserve_rng_state
from kit.model.families import Model
from kit.sequence.batch import Batch
from kit.training.batch_source import BatchSource

StageContext: TypeAlias = Callable[[bool], AbstractContextManager[None]]
"""A context manager around each stage of an evaluation; called with whether the model computes in that stage."""


def uninterrupted(computes: bool) -> AbstractContextManager[None]:
    """The stage context of an evaluation that is not interrupted."""
    return nullcontext()


@dataclass(frozen=True)
class Evaluation:
    """The figures of a model on a split, and what they were computed from."""

    figures: Mapping[str, float]
    """The loss (mean negative log-likelihood, in nats) and each metric, by name."""
    answers: Sequence[Answer] = ()
    """What the model generated, where a metric reads that."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """The settings of metrics that have several variants, such as sacreBLEU's signature."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """The figures formatted for people, by their labels."""
    results: Results | None = None
    """The sums that the figures are computed from, example by example."""
    indices: Sequence[int] = ()
    """The indices of these examples in the split."""


@dataclass(frozen=True)
class Evaluator:
    """Evaluates a model on one batch source. Every rank evaluates all of it and gets the same figures, so there is no
    communication.
    """

    objective: Objective
    metrics: Mapping[str, Metric]
    source: BatchSource
    examples: Sequence[Example]
    """The examples of the split, as text; rows are encoded from these."""
    tokenizer: Tokenizer
    """Decodes generated ids."""
    generator: SequenceGenerator | None
    """Generates the answers; None where no metric reads any."""
    length: int
    """The maximum sequence length of the model."""
    longest: int
    """The maximum length of an answer, in tokens, with its end token."""
    labels: Sequence[str] = ()
    """The names of the classes, where there are classes."""

    def evaluate(self, model: Model, stage: StageContext = uninterrupted) -> Evaluation:
        """Evaluate the model; its mode and the random generators are restored.

        stage: a context manager around each batch and each metric, which may end the evaluation with an exception.
        """
        mode = model.training
        model.eval()
        try:
            # FSDP allocates buffers in the first forward pass and writes to them in training: no inference tensors.
            is_sharded = isinstance(model, FSDPModule)
            with preserve_rng_state(), torch.no_grad() if is_sharded else torch.inference_mode():
                return self._evaluate(model, stage)
        finally:
            model.train(mode)

    def _evaluate(self, model: Model, stage: StageContext) -> Evaluation:
        generates = any(metric.reads_answers for metric in self.metrics.values())
        device = next(model.parameters()).device
        nll_sum = 0.0
        predicted = correct = 0
        answers: dict[int, Answer] = {}
        examples: dict[int, Results] = {}
        for batch in self.source.batches():
            with stage(True):
                batch = batch.to(device)
                loss = self.objective.loss(model, batch)
                nll_sum += float(loss.nll_sum)
                predicted += loss.num_predictions
                correct += 0 if loss.correct is None else int(loss.correct)
                generated = dict(zip(batch.indices, self.answers(model, batch), strict=False)) if generates else {}
            answers |= generated
            examples |= _results_by_example(loss, batch, generated)
        indices = tuple(sorted(examples))
        ordered = [answers[index] for index in sorted(answers)]
        results = Results(nll_sum, predicted, correct, ordered, [examples[index] for index in indices])
        figures = {"loss": nll_sum / max(1, predicted)}
        for name, metric in self.metrics.items():
            with stage(False):
                figures[name] = metric.measure(results)
        signatures = {name: metric.signature() for name, metric in self.metrics.items() if metric.signature()}
        return Evaluation(figures, ordered, signatures, self._shown(figures), results, indices)

    def _shown(self, figures: Mapping[str, float]) -> dict[str, str]:
        shown = {"loss": f"{figures['loss']:.4f}"}
        for name, metric in self.metrics.items():
            shown[metric.label] = f"{figures[name]:.2%}" if metric.is_fraction else f"{figures[name]:.2f}"
        return shown

    def answers(self, model: Model, batch: Batch) -> list[Answer]:
        """The generated answer or the predicted class of each row of a batch; none for windows of a token stream."""
        if not isinstance(self.source.rows, ExampleRows):
            return []
        chosen = [self.examples[index] for index in batch.indices]
        if not self.objective.per_token:
            classes = model(batch.source, packed=True).argmax(1).tolist()
            predicted = zip(chosen, classes, strict=True)
            return [Answer(it.source, self.labels[number], (it.label or "",)) for it, number in predicted]
        begun = self.objective.begin(model, batch)
        if begun is None or self.generator is None:
            return []
        session, first = begun
        room = max(1, min(self.longest, self.length - first.ids.shape[1]))
        generated = self.generator.generate(session, room, first, streams=batch.indices)
        return [
            Answer(it.source, self.tokenizer.decode(found[0].tokens), it.accepted)
            for it, found in zip(chosen, generated, strict=True)
        ]


def _results_by_example(loss: Loss, batch: Batch, answers: Mapping[int, Answer]) -> dict[int, Results]:
    """The results of each row, where the objective returns its loss by row."""
    if loss.rows is None:
        return {}
    found = {}
    for index, (nll_sum, count, correct) in zip(batch.indices, loss.rows.tolist(), strict=True):
        generated = (answers[index],) if index in answers else ()
        found[index] = Results(nll_sum, int(count), int(correct), generated)
    return found


@dataclass
class EarlyStopping:
    """Early stopping: whether one validation figure has not improved for `patience` validations in a row."""

    metric: str
    lower_is_better: bool = True
    patience: int | None = None
    """None never stops."""
    best: float | None = None
    waited: int = 0

    def update(self, figure: float) -> bool:
        """Add the figure of a new validation; returns whether it is the best so far."""
        sign = 1 if self.lower_is_better else -1
        better = math.isfinite(figure) and (self.best is None or sign * figure < sign * self.best)
        self.best, self.waited = (figure, 0) if better else (self.best, self.waited + 1)
        return better

    @property
    def is_over(self) -> bool:
        """Whether training should end."""
        return self.patience is not None and self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """The state that a checkpoint holds."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that a checkpoint holds."""
        self.best, self.waited = state["best"], state["waited"]
