"""Measuring a model on held-out examples: its loss, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch.distributed.fsdp import FSDPModule

from kit.contracts.data import Example
from kit.contracts.metric import Answer, Metric, Results
from kit.contracts.objective import Loss, Objective
from kit.contracts.tokenizer import Tokenizer
from kit.data.batch import Batch
from kit.data.rows import ExampleRows
from kit.decoding.building import Writer
from kit.model.families import Model
from kit.training import randomness
from kit.training.breaks import Piece, unbroken
from kit.training.feeding import Feed


@dataclass(frozen=True)
class Evaluation:
    """What was measured."""

    figures: Mapping[str, float]
    """The loss in nats a prediction, and each metric, by name."""
    answers: Sequence[Answer] = ()
    """What the model wrote, where a metric reads that."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """How metrics that have several ways to be measured were measured."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """The figures as people read them, by their labels."""
    results: Results | None = None
    """What the figures are of, example by example."""
    indices: Sequence[int] = ()
    """Which examples those are."""


@dataclass(frozen=True)
class Evaluator:
    """Measures a model on one feed; the same figures on every process, without any talk between them."""

    objective: Objective
    metrics: Mapping[str, Metric]
    feed: Feed
    examples: Sequence[Example]
    """What the rows of the feed are, as text."""
    tokenizer: Tokenizer
    """What turns what was written into text."""
    writer: Writer | None
    """How answers are written; None where none are."""
    length: int
    """The longest row the model is made for."""
    longest: int
    """The longest answer that is waited for, in tokens, its end counted."""
    labels: Sequence[str] = ()
    """The names of the classes, where there are classes."""

    def measure(self, model: Model, piece: Piece = unbroken) -> Evaluation:
        """Run the model over the feed; it is left as it was found, and so are the random generators.

        piece: goes around each batch and each metric, and may end the measurement with an exception.
        """
        trained = model.training
        model.eval()
        try:
            # Layers that are spread keep memory from the first time they compute, which training has to write to later.
            spread = isinstance(model, FSDPModule)
            with randomness.untouched(), torch.no_grad() if spread else torch.inference_mode():
                return self._measure(model, piece)
        finally:
            model.train(trained)

    def _measure(self, model: Model, piece: Piece) -> Evaluation:
        write = any(metric.reads_answers for metric in self.metrics.values())
        device = next(model.parameters()).device
        nats = 0.0
        predicted = correct = 0
        answers: dict[int, Answer] = {}
        examples: dict[int, Results] = {}
        for batch in self.feed.batches():
            with piece(True):
                batch = batch.to(device)
                loss = self.objective.loss(model, batch)
                nats += float(loss.nats)
                predicted += loss.count
                correct += 0 if loss.correct is None else int(loss.correct)
                written = dict(zip(batch.indices, self.answers(model, batch), strict=False)) if write else {}
            answers |= written
            examples |= _apart(loss, batch, written)
        indices = tuple(sorted(examples))
        ordered = [answers[index] for index in sorted(answers)]
        results = Results(nats, predicted, correct, ordered, [examples[index] for index in indices])
        figures = {"loss": nats / max(1, predicted)}
        for name, metric in self.metrics.items():
            with piece(False):
                figures[name] = metric.measure(results)
        signatures = {name: metric.signature() for name, metric in self.metrics.items() if metric.signature()}
        return Evaluation(figures, ordered, signatures, self._shown(figures), results, indices)

    def _shown(self, figures: Mapping[str, float]) -> dict[str, str]:
        shown = {"loss": f"{figures['loss']:.4f}"}
        for name, metric in self.metrics.items():
            shown[metric.label] = f"{figures[name]:.2%}" if metric.is_share else f"{figures[name]:.2f}"
        return shown

    def answers(self, model: Model, batch: Batch) -> list[Answer]:
        """What the model writes for each row of a batch, or the class that it names; nothing for windows of text."""
        if not isinstance(self.feed.rows, ExampleRows):
            return []
        chosen = [self.examples[index] for index in batch.indices]
        if not self.objective.per_token:
            numbers = model(batch.source, packed=True).argmax(1).tolist()
            named = zip(chosen, numbers, strict=True)
            return [Answer(it.source, self.labels[number], (it.label or "",)) for it, number in named]
        begun = self.objective.begin(model, batch)
        if begun is None or self.writer is None:
            return []
        session, first = begun
        room = max(1, min(self.longest, self.length - first.ids.shape[1]))
        written = self.writer.write(session, room, first, streams=batch.indices)
        return [
            Answer(it.source, self.tokenizer.decode(found[0].tokens), it.accepted)
            for it, found in zip(chosen, written, strict=True)
        ]


def _apart(loss: Loss, batch: Batch, answers: Mapping[int, Answer]) -> dict[int, Results]:
    """The results of each row, where the objective tells rows apart."""
    if loss.rows is None:
        return {}
    found = {}
    for index, (nats, count, correct) in zip(batch.indices, loss.rows.tolist(), strict=True):
        written = (answers[index],) if index in answers else ()
        found[index] = Results(nats, int(count), int(correct), written)
    return found
