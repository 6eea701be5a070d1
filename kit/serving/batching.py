"""One thread that runs the model, on the texts of whoever is waiting: many requests share a batch.

Requests take turns: a batch takes one text of each request that waits, then a second of each, and so on, so that a
long list does not make a single text wait until it is through. Answers go back by place, never by content.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from kit.errors import KitError
from kit.serving.job import Job, Piece
from kit.serving.limits import Limits
from kit.serving.refusal import busy

if TYPE_CHECKING:
    from kit.predicting.prediction import Prediction
log = logging.getLogger("kit.serving")


class Predicts(Protocol):
    """What answers: a `Predictor`, or in tests something quicker."""

    def predict(self, inputs: Sequence[str], *, nbest: int = 1) -> list[Prediction]:
        """An answer to each text, in order."""


class ModelFailed(Exception):
    """The model did not answer a text, for a reason that is not the text's fault; the reason is in the log."""


class Batcher:
    """Answers requests in batches, in a thread of its own; `submit` may be called from any thread."""

    def __init__(self, predictor: Predicts, limits: Limits) -> None:
        self.predictor = predictor
        self.limits = limits
        self.working = 0
        """How many texts the model is working on."""
        self.answered = 0
        """How many texts were answered since the start."""
        self.batches = 0
        """In how many batches."""
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self.closed = False
        """Whether it takes no more."""
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many texts wait for the model."""
        return sum(len(job.texts) - job.taken for job in tuple(self._jobs) if job.waits)

    def submit(self, texts: Sequence[str], nbest: int) -> Future[list[Prediction]]:
        """Queue texts; the future gives their answers in order. Cancel it, and what has not begun is left out."""
        job = Job(texts, nbest)
        if not texts:
            job.future.set_result([])
            return job.future
        with self._changed:
            waiting = self.waiting
            if self.closed:
                raise busy("the server is stopping")
            if waiting + len(texts) > self.limits.queue:
                raise busy(
                    f"too much to do: {waiting} texts wait, and at most {self.limits.queue} may; try again in a moment"
                )
            self._jobs.append(job)
            self._changed.notify()
        return job.future

    def close(self) -> None:
        """Answer what is queued, then end."""
        with self._changed:
            self.closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next():
            self.working = len(batch)
            self._answer(batch)
            self.working = 0

    def _next(self) -> list[Piece]:
        """Wait for texts, and a little longer for company; empty when everything is done and the server stops."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self.closed or self.waiting)
                if not self.waiting:
                    return []
                self._changed.wait_for(lambda: self.closed or self.waiting >= self.limits.batch, self.limits.wait)
                if batch := self._choose():  # empty if everybody went away meanwhile
                    return batch

    def _choose(self) -> list[Piece]:
        """A text of each request in turn, of those that want as many answers as the one that waits longest."""
        self._jobs = deque(job for job in self._jobs if job.waits)
        alike = [job for job in self._jobs if job.nbest == self._jobs[0].nbest]
        batch: list[Piece] = []
        while alike and len(batch) < self.limits.batch:
            batch += [job.take() for job in alike[: self.limits.batch - len(batch)]]
            alike = [job for job in alike if job.waits]
        served = {piece.job for piece in batch}
        # Whoever was served goes behind those who were not, so that nobody is overtaken for ever.
        self._jobs = deque(
            [job for job in self._jobs if job not in served] + [job for job in self._jobs if job in served]
        )
        return batch

    def _answer(self, batch: Sequence[Piece]) -> None:
        """Run the model; where it fails, run each text alone, so that only the one it fails on is lost."""
        try:
            predictions = self.predictor.predict([piece.text for piece in batch], nbest=batch[0].job.nbest)
            if len(predictions) != len(batch):
                raise ModelFailed(f"{len(predictions)} answers to {len(batch)} texts")
        except BaseException as error:  # nothing that a part does may end this thread: everybody waits for it
            if len(batch) > 1:
                for piece in batch:
                    if not piece.job.future.done():
                        self._answer([piece])
                return
            _fail(batch[0].job, error)
            return
        self.batches += 1
        self.answered += len(batch)
        for piece, prediction in zip(batch, predictions, strict=True):
            piece.job.put(piece.place, prediction)


def _fail(job: Job, error: BaseException) -> None:
    """Tell whoever waits; a mistake in what was asked is told as it is, anything else is for the log."""
    if not isinstance(error, KitError):
        log.error("the model failed on a text", exc_info=error)
        error = ModelFailed("the model failed on this text; the reason is in the server's log")
    if not job.future.done() and job.future.set_running_or_notify_cancel():
        job.future.set_exception(error)
