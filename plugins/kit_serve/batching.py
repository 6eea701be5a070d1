"""Dynamic batching: one thread runs the model on batches of the inputs of concurrent requests.

Batches are filled round-robin: one input of each waiting request, then a second of each, and so on, so that a long list
does not delay a single input. Predictions are matched to inputs by index, never by content.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kit import KitError
from kit_serve.request import Limits, busy

if TYPE_CHECKING:
    from kit import Prediction
log = logging.getLogger("kit_serve")


class BatchPredictor(Protocol):
    """A predictor of batches: a `ServedRun`, or a stub in tests."""

    def predict(self, inputs: Sequence[str], *, nbest: int = 1) -> list[Prediction]:
        """Returns predictions for the inputs, in their order."""


class ModelFailed(Exception):
    """The model failed on an input for a reason other than the input; the cause is in the log."""


@dataclass(eq=False)
class Job:
    """The inputs of one request, and the future of their predictions."""

    texts: Sequence[str]
    nbest: int
    future: Future[list[Prediction]] = field(default_factory=Future)
    started: int = 0
    """The number of inputs that were passed to the model."""
    predictions: dict[int, Prediction] = field(default_factory=dict)
    """The predictions by the index of their input."""

    @property
    def pending(self) -> bool:
        """Whether the client still waits and some inputs have not been passed to the model."""
        return not self.future.done() and self.started < len(self.texts)

    def next_item(self) -> BatchItem:
        """Takes the next input for a batch."""
        self.started += 1
        return BatchItem(self, self.started - 1)

    def set_prediction(self, index: int, prediction: Prediction) -> None:
        """Stores the prediction of one input; the last one completes the future."""
        self.predictions[index] = prediction
        if len(self.predictions) == len(self.texts) and self.future.set_running_or_notify_cancel():
            self.future.set_result([self.predictions[index] for index in range(len(self.texts))])


@dataclass(frozen=True)
class BatchItem:
    """One input of a job, as an element of a batch."""

    job: Job
    index: int

    @property
    def text(self) -> str:
        """The input."""
        return self.job.texts[self.index]


class Batcher:
    """Runs the model on batches, in a thread of its own; `submit` may be called from any thread."""

    def __init__(self, predictor: BatchPredictor, limits: Limits) -> None:
        self.predictor = predictor
        self.limits = limits
        self.working = 0
        """The number of inputs in the current batch."""
        self.answered = 0
        """The number of inputs predicted since the start."""
        self.batches = 0
        """The number of batches run since the start."""
        self._jobs: deque[Job] = deque()
        self._condition = threading.Condition()
        self.closed = False
        """Whether new inputs are refused."""
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of queued inputs."""
        return sum(len(job.texts) - job.started for job in tuple(self._jobs) if job.pending)

    def submit(self, texts: Sequence[str], nbest: int) -> Future[list[Prediction]]:
        """Queues inputs and returns the future of their predictions; cancelling it drops those still queued."""
        job = Job(texts, nbest)
        if not texts:
            job.future.set_result([])
            return job.future
        with self._condition:
            waiting = self.waiting
            if self.closed:
                raise busy("the server is stopping")
            if waiting + len(texts) > self.limits.queue:
                raise busy(
                    f"too much to do: {waiting} texts wait, and at most {self.limits.queue} may; try again in a moment"
                )
            self._jobs.append(job)
            self._condition.notify()
        return job.future

    def close(self) -> None:
        """Refuses new inputs, predicts the queued ones, and ends the thread."""
        with self._condition:
            self.closed = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            self.working = len(batch)
            self._predict(batch)
            self.working = 0

    def _next_batch(self) -> list[BatchItem]:
        """Waits for inputs, and up to `limits.wait` for a full batch; empty when the batcher is closed and drained."""
        with self._condition:
            while True:
                self._condition.wait_for(lambda: self.closed or self.waiting)
                if not self.waiting:
                    return []
                self._condition.wait_for(lambda: self.closed or self.waiting >= self.limits.batch, self.limits.wait)
                if batch := self._select():  # empty if all clients disconnected meanwhile
                    return batch

    def _select(self) -> list[BatchItem]:
        """Takes inputs round-robin from the jobs whose `nbest` is that of the longest-waiting job."""
        self._jobs = deque(job for job in self._jobs if job.pending)
        same_nbest = [job for job in self._jobs if job.nbest == self._jobs[0].nbest]
        batch: list[BatchItem] = []
        while same_nbest and len(batch) < self.limits.batch:
            batch += [job.next_item() for job in same_nbest[: self.limits.batch - len(batch)]]
            same_nbest = [job for job in same_nbest if job.pending]
        served = {item.job for item in batch}
        # Served jobs go behind the others, so that no job starves.
        self._jobs = deque(
            [job for job in self._jobs if job not in served] + [job for job in self._jobs if job in served]
        )
        return batch

    def _predict(self, batch: Sequence[BatchItem]) -> None:
        """Runs the model on a batch; if that fails, on each input alone, so that only the bad input fails."""
        try:
            predictions = self.predictor.predict([item.text for item in batch], nbest=batch[0].job.nbest)
            if len(predictions) != len(batch):
                raise ModelFailed(f"{len(predictions)} answers to {len(batch)} texts")
        except BaseException as error:  # SystemExit of a part too: every client depends on this thread
            if len(batch) > 1:
                for item in batch:
                    if not item.job.future.done():
                        self._predict([item])
                return
            _fail(batch[0].job, error)
            return
        self.batches += 1
        self.answered += len(batch)
        for item, prediction in zip(batch, predictions, strict=True):
            item.job.set_prediction(item.index, prediction)


def _fail(job: Job, error: BaseException) -> None:
    """Sets the exception of a job: a `KitError` as it is; any other is logged and hidden from the client."""
    if not isinstance(error, KitError):
        log.error("the model failed on a text", exc_info=error)
        error = ModelFailed("the model failed on this text; the reason is in the server's log")
    if not job.future.done() and job.future.set_running_or_notify_cancel():
        job.future.set_exception(error)
