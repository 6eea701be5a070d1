"""Lets Lightning run the steps of a training that are left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as lightning

from kit.data.loading import load
from kit.data.steps import StepBatches
from kit.recipe.training_section import TrainingSection
from kit.runs.directory import RunDirectory
from kit.runs.parts import Checkpoint
from kit.training.after_step import AfterStep
from kit.training.group import Group
from kit.training.logbook import Logbook
from kit.training.marking import LastMark, Marks
from kit.training.membership import Member
from kit.training.preparing import Prepared
from kit.training.progress import Reporter
from kit.training.saving import Saver
from kit.training.strategies import keep_signals, options

if TYPE_CHECKING:
    from kit.kit import Kit

_PRECISIONS: dict[str, Any] = {"float32": "32-true", "bfloat16": "bf16-mixed", "float16": "16-mixed"}


def fit(
    run: RunDirectory,
    prepared: Prepared,
    kit: Kit,
    saver: Saver,
    reporter: Reporter,
    resumed: Checkpoint | None,
    group: Group,
    keep: Callable[[], None] | None = None,
) -> AfterStep | None:
    """Let Lightning run the steps that are left; None where there are none.

    keep: is called once everything is restored, before the first step, to note what is trained from here on.
    """
    training, start = prepared.training, saver.module.step
    measured = saver.unmeasured is None
    if measured and (start >= training.steps or saver.patience.is_over):
        if keep is not None:
            keep()
        return None
    validated = "validation" in prepared.data.splits()
    evaluator = prepared.evaluator("validation", training.validation_examples) if validated else None
    logbook = Logbook(run, start if measured else start - 1) if group.first else None
    after = AfterStep(saver, reporter, evaluator, logbook, resumed, keep)
    plugged = [callback for found in kit.hooks.kit_callbacks(recipe=prepared.recipe) for callback in found]
    callbacks = [after, *plugged]
    if group.watch is not None:
        group.watch.was_asked, group.watch.tell = after.interruption.asked, after.interruption.tell
        callbacks = [Marks(group, saver.module), *callbacks, LastMark(group, saver.module)]
        saver.module.mark = group.mark
    trainer = _trainer(training, callbacks, run.path, group.member)
    shares = StepBatches(
        prepared.feed.sampler,
        start,
        training.steps if measured else max(start + 1, training.steps),  # Lightning does not begin without a batch
        rank=trainer.global_rank // training.tensor,
        world=trainer.world_size // training.tensor,
        accumulate=training.accumulate,
    )
    loader = load(prepared.feed.rows, shares, workers=training.workers, pin=trainer.strategy.root_device.type == "cuda")
    trainer.fit(saver.module, loader)
    return after


def _trainer(
    training: TrainingSection, callbacks: list[lightning.Callback], folder: Path, member: Member | None
) -> lightning.Trainer:
    """Lightning with its own progress, logging, checkpoints and sampling turned off: the kit has its own."""
    trainer = lightning.Trainer(
        accelerator=training.accelerator,
        **options(training, member),
        precision=_PRECISIONS[training.precision],
        max_epochs=1,
        accumulate_grad_batches=training.accumulate,
        callbacks=callbacks,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        limit_val_batches=0,
        use_distributed_sampler=False,
    )
    keep_signals(trainer)
    return trainer
