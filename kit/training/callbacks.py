"""Lightning callbacks of a training: what happens after each step, and the heartbeats of one of many processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as lightning
from torch import Tensor

from kit.checkpoints.contents import Checkpoint
from kit.distributed.collectives import broadcast, data_parallel_rank
from kit.distributed.fsdp import unsharded
from kit.distributed.process_group import ProcessGroup
from kit.distributed.watchdog import SAVING
from kit.kernels.rng_state import seed_all
from kit.training.checkpointer import Checkpointer
from kit.training.evaluator import Evaluation, Evaluator
from kit.training.interruption import EvaluationInterrupted, InterruptibleEvaluation, Interruption
from kit.training.metrics_logger import MetricsLogger
from kit.training.module import TrainingModule
from kit.training.progress import Reporter

PREFIX = "validation_"


class StepEndCallback(lightning.Callback):
    """Ends every step: averages weights, validates, logs, reports, saves, and stops the training when it is over."""

    def __init__(
        self,
        checkpointer: Checkpointer,
        reporter: Reporter,
        evaluator: Evaluator | None,
        metrics_logger: MetricsLogger | None,
        checkpoint: Checkpoint | None,
        on_restored: Callable[[], None] | None = None,
    ) -> None:
        """checkpoint: what is resumed; on_restored: called once all of it is restored, before the first step."""
        self.checkpointer = checkpointer
        self.reporter = reporter
        self.evaluator = evaluator
        self.metrics_logger = metrics_logger
        self.checkpoint = checkpoint
        self.on_restored = on_restored
        self.interruption = Interruption()
        self.module = checkpointer.module
        self.training = checkpointer.module.training_section

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Restore the optimizer and the random generators, or seed them; then make a validation that is pending."""
        if self.checkpointer.average is not None:
            self.checkpointer.average.to_device()
        if self.checkpoint is not None:
            self.checkpointer.restore_rest(self.checkpoint, self.training.seed)
            self.checkpoint = None
        else:
            seed_all(self.training.seed, 0, data_parallel_rank(self.training.tensor_parallel))
        if self.on_restored is not None:
            self.on_restored()
        self.module.stop_requested = self.interruption.is_requested
        self.interruption.listen()
        self.reporter.start(self.module.step, self.training.steps)
        if self.checkpointer.pending_validation is not None:
            self.module.report_progress(f"measuring after step {self.module.step}")
            self._end_step(trainer, self.checkpointer.pending_validation, self.evaluator)
        self._clock = time.monotonic()

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End the step after the last of its micro-batches."""
        if (batch_idx + 1) % self.training.accumulate_steps:
            return
        step, figures = self.module.step, dict(self.module.figures)
        now = time.monotonic()
        figures["tokens_per_second"] = figures["tokens"] / max(1e-9, now - self._clock)
        if self.checkpointer.average is not None:
            self.checkpointer.average.update(step)
        is_last = step >= self.training.steps
        is_validated = is_last or step % self.training.validate_every == 0
        self._end_step(trainer, figures, self.evaluator if is_validated else None)
        self._clock = time.monotonic()

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Close everything at the end of the loop."""
        self.close()

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Close everything after an error."""
        self.close()

    def close(self) -> None:
        """Release the terminal, the signal handlers and the files."""
        self.interruption.release()
        self.reporter.stop()
        if self.metrics_logger is not None:
            self.metrics_logger.close()

    def _end_step(self, trainer: lightning.Trainer, figures: dict[str, float], evaluator: Evaluator | None) -> None:
        """Validate where an evaluator is given, log, report, and save a checkpoint where one is due."""
        step, score, is_best = self.module.step, None, False
        evaluation = None if evaluator is None else self._evaluate(evaluator)
        is_interrupted = evaluator is not None and evaluation is None
        was_pending = self.checkpointer.pending_validation is not None and not is_interrupted
        self.checkpointer.pending_validation = figures if is_interrupted else None
        row = dict(figures)
        if evaluation is not None:
            row |= {PREFIX + name: value for name, value in evaluation.figures.items()}
            score = broadcast(evaluation.figures[self.training.metric])
            is_best = self.checkpointer.early_stopping.update(score)
        if self.metrics_logger is not None:
            self.metrics_logger.write(step, row)
        self.reporter.step(step, row)
        if evaluation is not None:
            shown = ", ".join(f"{label} {value}" for label, value in evaluation.shown.items())
            self.reporter.say(f"step {step}: validation {shown}{'  (best so far)' if is_best else ''}")
        is_over = step >= self.training.steps or self.module.stopping or self.checkpointer.early_stopping.is_over
        if is_best or is_over or was_pending or step % self.training.checkpoint_every == 0:
            self.module.report_progress(f"{SAVING} step {step}")
            self.checkpointer.save(score, again=was_pending)
        trainer.should_stop = is_over

    def _evaluate(self, evaluator: Evaluator) -> Evaluation | None:
        """The validation; None where a rank was asked to stop: the resumed run begins with it."""
        interruptible = InterruptibleEvaluation(self.interruption, self.module.model)
        try:
            if self.module.stopping:
                return None
            with self._averaged_weights(), unsharded(self.module.model):
                return evaluator.evaluate(self.module.model, interruptible.stage)
        except EvaluationInterrupted:
            self.module.stopping = True
            return None

    @contextmanager
    def _averaged_weights(self) -> Iterator[None]:
        if self.checkpointer.average is None:
            yield
        else:
            with self.checkpointer.average.swapped_in():
                yield


def heartbeat_around(
    callbacks: Sequence[lightning.Callback], group: ProcessGroup, module: TrainingModule, interruption: Interruption
) -> list[lightning.Callback]:
    """The callbacks between those that report progress to the watchdog; as they are for one process alone."""
    if group.watchdog is None:
        return [*callbacks]
    group.watchdog.stop_requested = interruption.is_requested
    group.watchdog.request_stop = interruption.request
    module.report_progress = group.report_progress
    return [HeartbeatCallback(group, module), *callbacks, FinalHeartbeatCallback(group, module)]


class HeartbeatCallback(lightning.Callback):
    """Reports to the watchdog what this rank computes; comes before all other callbacks."""

    def __init__(self, group: ProcessGroup, module: TrainingModule) -> None:
        self.group = group
        self.module = module

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """The batch is loaded."""
        self.group.report_progress(f"computing step {self.module.step + 1}")

    def on_before_backward(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, loss: Tensor
    ) -> None:
        """The loss is computed; the backward pass waits for the other ranks."""
        self.group.report_progress(f"computing the gradient of step {self.module.step + 1}")

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """The step is made."""
        self.group.report_progress(f"measuring after step {self.module.step}")


class FinalHeartbeatCallback(lightning.Callback):
    """Reports to the watchdog that this rank loads the next batch; comes after all other callbacks."""

    def __init__(self, group: ProcessGroup, module: TrainingModule) -> None:
        self.group = group
        self.module = module

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Everything after the step is done."""
        self.group.report_progress(f"reading the batch of step {self.module.step + 1}")
