"""What happens after each step, in this order: average, measure, write down, save, tell, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as lightning

from kit.runs.parts import Checkpoint
from kit.training import randomness
from kit.training.agreement import data_process, from_first
from kit.training.breaks import Breaks, Unfinished
from kit.training.evaluation import Evaluation, Evaluator
from kit.training.interruption import Interruption
from kit.training.logbook import Logbook
from kit.training.progress import Reporter
from kit.training.saving import Saver
from kit.training.sharding import usable
from kit.training.watch import SAVING

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
        keep: Callable[[], None] | None = None,
    ) -> None:
        self.saver = saver
        self.reporter = reporter
        self.evaluator = evaluator
        self.logbook = logbook
        self.resumed = resumed
        self.keep = keep
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
        if self.keep is not None:
            self.keep()
        self.module.asked_to_stop = self.interruption.asked
        self.interruption.listen()
        self.reporter.start(self.module.step, self.training.steps)
        if self.saver.unmeasured is not None:
            self.module.mark(f"measuring after step {self.module.step}")
            self._close(trainer, self.saver.unmeasured, self.evaluator)
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
        last = step >= self.training.steps
        self._close(trainer, figures, self.evaluator if last or step % self.training.validate_every == 0 else None)
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

    def _close(self, trainer: lightning.Trainer, figures: dict[str, float], evaluator: Evaluator | None) -> None:
        """What is done once a step is made; evaluator: where it is time to measure."""
        step, score, best, shown = self.module.step, None, False, ""
        measured = None if evaluator is None else self._measure(evaluator)
        given_up = evaluator is not None and measured is None
        caught_up = self.saver.unmeasured is not None and not given_up
        self.saver.unmeasured = figures if given_up else None
        row = dict(figures)
        if measured is not None:
            row |= {PREFIX + name: value for name, value in measured.figures.items()}
            shown = ", ".join(f"{label} {value}" for label, value in measured.shown.items())
            score = from_first(measured.figures[self.training.metric])
            best = self.saver.patience.see(score)
        if self.logbook is not None:
            self.logbook.write(step, row)
        self.reporter.step(step, row)
        if score is not None:
            self.reporter.say(f"step {step}: validation {shown}{'  (best so far)' if best else ''}")
        ending = step >= self.training.steps or self.module.stopping or self.saver.patience.is_over
        if best or ending or caught_up or step % self.training.checkpoint_every == 0:
            self.module.mark(f"{SAVING} step {step}")
            self.saver.save(score, again=caught_up)
        trainer.should_stop = ending

    def _measure(self, evaluator: Evaluator) -> Evaluation | None:
        """None where some process was asked to stop: a run that goes on measures first."""
        breaks = Breaks(self.interruption, self.module.model)
        try:
            if self.module.stopping:
                return None
            with self._averaged(), usable(self.module.model):
                return evaluator.measure(self.module.model, breaks.piece)
        except Unfinished:
            self.module.stopping = True
            return None

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        if self.saver.average is None:
            yield
        else:
            with self.saver.average.in_place():
                yield
