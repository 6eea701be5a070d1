"""Training from start to end: prepare, restore, loop, finish. Reads from top to bottom.

`train` is the whole of it, and the functions below stand in the order in which it calls them. Lightning runs the loop:
`TrainingModule` (`module.py`) computes the loss of a batch, clips the gradient and sets the learning rate;
`StepEndCallback` (`callbacks.py`) validates, logs and saves once a step is made.
"""

from __future__ import annotations

import json
import signal
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from kit.checkpoints.contents import Checkpoint
from kit.checkpoints.store import CheckpointStore, Ranks, Retention
from kit.data.data_loader import ShardSampler, make_loader
from kit.distributed.process_group import ProcessGroup, rendezvous
from kit.distributed.rank_info import RankInfo, with_started_devices
from kit.distributed.state import load_weights
from kit.distributed.tensor_parallel import describe_shards
from kit.files.atomic import write_text
from kit.kernels.devices import device_called, is_gpu, prepare_process
from kit.model.families import Model
from kit.recipe.dump import to_yaml
from kit.recipe.parts import RecipeParts
from kit.recipe.sections import Recipe
from kit.runs.lock import Lock, compare
from kit.runs.run_directory import ROOT, RunDirectory, RunError, claim_run, read_origin, write_origin
from kit.runs.weights import read_weights, save_weights
from kit.training.callbacks import StepEndCallback, heartbeat_around
from kit.training.checkpointer import Checkpointer
from kit.training.evaluator import EarlyStopping, Evaluation
from kit.training.lightning_trainer import build_trainer, is_sharded, silence_lightning
from kit.training.metrics_logger import MetricsLogger
from kit.training.module import TrainingModule
from kit.training.preparation import PreparedTraining, init_pretrained, prepare_training
from kit.training.progress import Reporter, SilentReporter
from kit.training.start_errors import explain_mismatch, rollback_run_on_failure
from kit.training.weight_averaging import EMA, average_checkpoints, averaged_weights

if TYPE_CHECKING:
    from kit.kit import Kit


@dataclass(frozen=True)
class TrainingResult:
    """How a training ended."""

    run: RunDirectory
    step: int
    steps: int
    ending: Literal["finished", "stopped early", "interrupted"]
    seconds: float
    """Wall-clock time of the loop, without preparing and restoring."""
    evaluation: Evaluation | None = None
    """The final weights on the test split, or on the validation split where there is no test split."""
    signal: int = 0
    """The signal that interrupted it."""
    nothing_left: bool = False
    """Whether the run was over before, so that no step was made."""


def train(
    recipe: Recipe,
    kit: Kit,
    run: RunDirectory | None = None,
    *,
    folder: Path | None = None,
    reporter: Reporter | None = None,
    root: Path = ROOT,
) -> TrainingResult:
    """Train a recipe in a new run, or resume one that has checkpoints.

    run: the run to train in; left out, a new one under `root`. folder: what the recipe's relative paths start from.
    """
    silence_lightning()
    prepare_process()
    reporter = reporter or SilentReporter()
    if (rank_info := RankInfo.from_environment()) is not None:
        recipe = with_started_devices(recipe, rank_info)
    given_run, training, text = run, RecipeParts(recipe, kit.registry).training, to_yaml(recipe, kit.registry)
    with rollback_run_on_failure(reporter.say) as created, rendezvous(training, text, reporter.say) as group:
        reporter = reporter if group.is_main else SilentReporter()
        run = RunDirectory(
            group.broadcast_folder(lambda: (given_run or created.note(new_run(recipe, kit, folder, root))).path)
        )
        reporter.say(str(run.path))
        with claim_run(run) if group.is_main else nullcontext():
            # Prepare: data, tokenizers, batches and the model; the lock says what the run is made with.
            with group.main_process_first():
                prepared = prepare_training(recipe, kit, folder or read_origin(run), saved_tokenizer=run.tokenizer)
                lock = _write_or_compare_lock(run, prepared, kit, reporter)
            # Restore: the newest checkpoint, the weights that the run was made with, or pretrained initial values.
            checkpointer, checkpoint = _restore(run, prepared, kit, lock.run, reporter, group)
            # Loop: the steps that are left.
            began = time.monotonic()
            after_step = _loop(run, prepared, kit, checkpointer, checkpoint, reporter, group)
            seconds = time.monotonic() - began
            # Finish: the final weights, measured on held-out examples.
            return _finish(run, prepared, kit, checkpointer, after_step, seconds, group)


def new_run(recipe: Recipe, kit: Kit, folder: Path | None = None, root: Path = ROOT) -> RunDirectory:
    """Create the directory of a run, with all that `kit resume` needs."""
    run = RunDirectory.create(recipe.name, root)
    write_origin(run, folder)
    run.write(run.recipe, to_yaml(recipe, kit.registry))
    return run


def _write_or_compare_lock(run: RunDirectory, prepared: PreparedTraining, kit: Kit, reporter: Reporter) -> Lock:
    """Write the lock of a new run; of a run that is resumed, report how it differs from what is installed now."""
    current = prepared.lock(kit)
    if not run.lock.is_file():
        prepared.write_vocabularies(run)
        current.write(run.lock)
        return current
    lock = Lock.read(run.lock)
    for difference in compare(lock, current):
        reporter.say(f"not as when the run began: {difference}")
    return lock


def _restore(
    run: RunDirectory, prepared: PreparedTraining, kit: Kit, run_id: str, reporter: Reporter, group: ProcessGroup
) -> tuple[Checkpointer, Checkpoint | None]:
    """Initialise the weights, and build the module, early stopping and moving average around them.

    The optimizer's state and the random generators are restored later, by `StepEndCallback.on_train_start`: before
    that, Lightning has not built the optimizer.
    """
    training, model = prepared.training, prepared.model
    metric = prepared.metrics.get(training.metric)
    lower_is_better = metric.lower_is_better if metric is not None else True
    averaging = training.average
    store = CheckpointStore(
        run.checkpoints,
        run_id,
        Retention(
            training.keep_checkpoints,
            lower_is_better=lower_is_better,
            regular=(averaging.last if averaging is not None else None) or 0,
            every=training.checkpoint_every,
        ),
        Ranks.current(),
    )
    with group.main_process_first():
        if group.is_main:
            store.tidy()
    has_initial_weights = run.weights.is_file() and not store.steps()  # the run was made from the weights of another
    checkpoint = _load_newest(store, group)
    if has_initial_weights:
        with explain_mismatch(run, prepared, kit):
            _load_initial_weights(run, model)
    elif checkpoint is None:
        init_pretrained(model)
    if training.tensor_parallel > 1:
        reporter.say(describe_shards(model, training.tensor_parallel))
    module = TrainingModule(model, prepared.objective, prepared.parts.optimizer(), prepared.parts.schedule(), training)
    checkpointer = Checkpointer(
        store,
        module,
        EarlyStopping(training.metric, lower_is_better, training.patience),
        EMA(model, averaging.ema) if averaging is not None and averaging.ema is not None else None,
    )
    if checkpoint is not None:
        with explain_mismatch(run, prepared, kit):
            checkpointer.restore_weights(checkpoint)
    return checkpointer, checkpoint


def _load_newest(store: CheckpointStore, group: ProcessGroup) -> Checkpoint | None:
    """The newest intact checkpoint, the same on all ranks; rank 0 chooses it, and names those that are damaged."""
    found = store.load_latest() if group.is_main and store.steps() else None
    step = group.broadcast_text(lambda: "" if found is None else str(found.step))
    return store.load(int(step)) if step and found is None else found


def _load_initial_weights(run: RunDirectory, model: Model) -> None:
    """Load the weights that a run was made with; regularizers that they do not have keep their initial values."""
    missing, unknown = model.load_state_dict(read_weights(run), strict=False)
    missing = [name for name in missing if not name.startswith("regularizers.")]
    if missing or unknown:
        raise RunError(
            f"the weights in {run.weights} are not those of this recipe: "
            f"{len(missing)} are missing and {len(unknown)} unknown, such as {(missing + unknown)[0]}"
        )


def _loop(
    run: RunDirectory,
    prepared: PreparedTraining,
    kit: Kit,
    checkpointer: Checkpointer,
    checkpoint: Checkpoint | None,
    reporter: Reporter,
    group: ProcessGroup,
) -> StepEndCallback | None:
    """Make the steps that are left, with Lightning; None where there are none."""
    training, module, start = prepared.training, checkpointer.module, checkpointer.module.step
    recipe = to_yaml(prepared.recipe, kit.registry)

    def write_changed_recipe() -> None:
        # A run that is resumed with changes has them from here on, so that it can be resumed again like any other.
        if group.is_main and (not run.recipe.is_file() or run.recipe.read_text() != recipe):
            run.write(run.recipe, recipe)

    validated = checkpointer.pending_validation is None
    if validated and (start >= training.steps or checkpointer.early_stopping.is_over):
        write_changed_recipe()
        return None
    has_validation = "validation" in prepared.data.splits()
    after_step = StepEndCallback(
        checkpointer,
        reporter,
        prepared.evaluator("validation", training.validation_examples) if has_validation else None,
        MetricsLogger(run, start if validated else start - 1) if group.is_main else None,
        checkpoint,
        on_restored=write_changed_recipe,
    )
    plugged = [callback for found in kit.hooks.kit_callbacks(recipe=prepared.recipe) for callback in found]
    callbacks = heartbeat_around([after_step, *plugged], group, module, after_step.interruption)
    trainer = build_trainer(training, callbacks, run.path, group.rank_info)
    batches = ShardSampler(
        prepared.train_source.sampler,
        start,
        training.steps if validated else max(start + 1, training.steps),  # Lightning does not begin without a batch
        rank=trainer.global_rank // training.tensor_parallel,
        world=trainer.world_size // training.tensor_parallel,
        accumulate_steps=training.accumulate_steps,
    )
    pin = is_gpu(trainer.strategy.root_device)
    trainer.fit(module, make_loader(prepared.train_source.rows, batches, workers=training.workers, pin=pin))
    return after_step


def _finish(
    run: RunDirectory,
    prepared: PreparedTraining,
    kit: Kit,
    checkpointer: Checkpointer,
    after_step: StepEndCallback | None,
    seconds: float,
    group: ProcessGroup,
) -> TrainingResult:
    """Leave the process group; rank 0 keeps the final weights, measures them and writes the reports."""
    training, module = prepared.training, checkpointer.module
    if after_step is not None and (module.stopping or after_step.interruption.is_requested()):
        number = after_step.interruption.received or signal.SIGTERM  # the signal may have come to another rank
        return TrainingResult(run, module.step, training.steps, "interrupted", seconds, signal=number)
    ending: Literal["finished", "stopped early"] = "finished" if module.step >= training.steps else "stopped early"
    group.shutdown()
    evaluation = None
    if group.is_main:
        if is_sharded(training, group.rank_info):
            prepared = prepared.with_new_model(kit)  # unsharded, for this process alone
        weights = final_weights(prepared, checkpointer.store, module.step)
        load_weights(prepared.model, weights)
        save_weights(run, weights)
        evaluation = _evaluate_and_report(run, prepared)
    return TrainingResult(
        run, module.step, training.steps, ending, seconds, evaluation, nothing_left=after_step is None
    )


def final_weights(prepared: PreparedTraining, store: CheckpointStore, step: int) -> dict[str, Tensor]:
    """The weights that a training keeps: the average that the recipe asks for, else the best checkpoint, else the last.

    step: the last step that was made. A damaged checkpoint is passed over for the next intact one, with a warning.
    """
    training = prepared.training
    if training.average is not None and training.average.last is not None:
        return average_checkpoints(store.intact(), training.average.last, every=training.checkpoint_every, end=step)
    return averaged_weights(prepared.model, store.load_best())


def _evaluate_and_report(run: RunDirectory, prepared: PreparedTraining) -> Evaluation | None:
    """Evaluate on the test split, else on validation, and write the figures and the answers into `reports/`."""
    splits = prepared.data.splits()
    split = next((name for name in ("test", "validation") if name in splits), None)
    if split is None:
        return None
    device = device_called(None if prepared.training.accelerator in ("auto", "gpu") else "cpu")
    evaluation = prepared.evaluator(split).evaluate(prepared.model.to(device))
    report = {"split": split, "figures": dict(evaluation.figures), "signatures": dict(evaluation.signatures)}
    write_text(run.reports / f"{split}.json", json.dumps(report, indent=2) + "\n")
    if evaluation.answers:
        lines = [
            json.dumps({"source": it.source, "answer": it.text, "references": it.references}, ensure_ascii=False)
            for it in evaluation.answers
        ]
        write_text(run.reports / f"{split}_answers.jsonl", "\n".join(lines) + "\n")
    return evaluation
