"""What happens after each step, in this order: average, measure, write down, save, tell, stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as lightning

from kit.runs.parts import Checkpoint
from kit.training import randomness
from kit.training.agreement import data_process, from_first
from kit.training.evaluation import Evaluation, Evaluator
from kit.training.interruption import Interruption
from kit.training.logbook import Logbook
from kit.training.progress import Reporter
from kit.training.saving import Saver
from kit.training.sharding import usable

PREFIX = "validation_"


class AfterStep(lightning.Callback):
    """Keeps a training measured, saved and told of."""

    def __init__(
        self,
        saver: Saver,
        reporter: Reporter,
        evaluator: Evaluator | None,
        logbook: Logbook | None,
        resumed: Checkpoint | None,
    ) -> None:
        self.saver = saver
        self.reporter = reporter
        self.evaluator = evaluator
        self.logbook = logbook
        self.resumed = resumed
        self.interruption = Interruption()
        self.module = saver.module
        self.training = saver.module.training_section

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Everything is in place: go on from the checkpoint, or begin."""
        if self.saver.average is not None:
            self.saver.average.follow()
        if self.resumed is not None:
            self.saver.restore_rest(self.resumed, self.training.seed)
            self.resumed = None
        else:
            randomness.begin(self.training.seed, 0, data_process(self.training.tensor))
        self.module.asked_to_stop = self.interruption.asked
        self.interruption.listen()
        self.reporter.start(self.module.step, self.training.steps)
        self._clock = time.monotonic()

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """After the last piece of a batch."""
        if (batch_idx + 1) % self.training.accumulate:
            return
        step, figures = self.module.step, dict(self.module.figures)
        now = time.monotonic()
        figures["tokens_per_second"] = figures["tokens"] / max(1e-9, now - self._clock)
        if self.saver.average is not None:
            self.saver.average.update(step)
        score, best, shown = None, False, ""
        last = step >= self.training.steps
        if self.evaluator is not None and (last or step % self.training.validate_every == 0):
            measured = self._measure(self.evaluator)
            figures |= {PREFIX + name: value for name, value in measured.figures.items()}
            shown = ", ".join(f"{label} {value}" for label, value in measured.shown.items())
            score = from_first(measured.figures[self.training.metric])
            best = self.saver.patience.see(score)
        if self.logbook is not None:
            self.logbook.write(step, figures)
        self.reporter.step(step, figures)
        if score is not None:
            self.reporter.say(f"step {step}: validation {shown}{'  (best so far)' if best else ''}")
        ending = last or self.module.stopping or self.saver.patience.is_over
        if best or ending or step % self.training.checkpoint_every == 0:
            self.saver.save(score)
        trainer.should_stop = ending
        self._clock = time.monotonic()

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Training is over, for whatever reason."""
        self.close()

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Something went wrong."""
        self.close()

    def close(self) -> None:
        """Let go of the terminal, the signals and the files."""
        self.interruption.release()
        self.reporter.stop()
        if self.logbook is not None:
            self.logbook.close()

    def _measure(self, evaluator: Evaluator) -> Evaluation:
        with self._averaged(), usable(self.module.model):
            return evaluator.measure(self.module.model)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        if self.saver.average is None:
            yield
        else:
            with self.saver.average.in_place():
                yield
