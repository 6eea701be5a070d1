"""Dry run: measures a few real steps of a training to predict its time and memory; writes nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kit.contracts.optimizer import parameter_groups
from kit.contracts.part import collect_losses
from kit.data.packing import WindowRows
from kit.data.rows import ExampleRows, Rows
from kit.data.samplers import shard_of
from kit.kernels.allocator import peak_memory
from kit.kernels.devices import (
    device_of_accelerator,
    device_title,
    has_accelerator,
    is_gpu,
    mixed_precision,
    peak_gpu_memory,
    prepare_process,
    synchronize,
)
from kit.recipe.sections import Recipe, TrainingSection
from kit.training.lightning_trainer import silence_lightning
from kit.training.preparation import PreparedTraining, prepare_training
from kit.training.weight_averaging import EMA

if TYPE_CHECKING:
    from kit.kit import Kit

MEASURED = 4


@dataclass(frozen=True)
class TrainingPlan:
    """What would run, on which device, for how long, and with how much memory."""

    parameters: int
    machine: str
    objective: str
    rows: int
    """Examples, or tokens where windows are cut from a stream."""
    left_out: int
    batches_per_epoch: int
    steps: int
    epochs: float
    tokens_a_step: float
    """Tokens in a global batch without padding, on average."""
    padding: float
    measured: int
    seconds_a_step: float
    bytes: int
    """The peak memory of this process in the measured steps."""


def plan_training(recipe: Recipe, kit: Kit, folder: Path | None = None) -> TrainingPlan:
    """Prepare a recipe and time a few of its steps on this process."""
    silence_lightning()
    prepare_process()
    prepared = prepare_training(recipe, kit, folder)
    training, sampler = prepared.training, prepared.train_source.sampler
    device = device_of_accelerator(training.accelerator)
    processes = training.devices * training.nodes
    seconds, tokens, positions = _measure(prepared, device, processes // training.tensor_parallel)
    return TrainingPlan(
        parameters=sum(parameter.numel() for parameter in prepared.model.parameters()),
        machine=_machine(device, training) + _memory_note(training.strategy, processes),
        objective=prepared.objective.name(),
        rows=_count(prepared.train_source.rows),
        left_out=prepared.train_source.left_out,
        batches_per_epoch=sampler.batches_per_epoch,
        steps=training.steps,
        epochs=training.steps / sampler.batches_per_epoch,
        tokens_a_step=tokens,
        padding=1 - tokens / positions,
        measured=MEASURED,
        seconds_a_step=seconds,
        bytes=_memory(device),
    )


def _measure(prepared: PreparedTraining, device: torch.device, processes: int) -> tuple[float, float, float]:
    """Seconds, tokens and positions (with padding) of a step; the first step is a warm-up and not counted.

    processes: the data-parallel world size. Layers are not sharded, even where the recipe is tensor-parallel.
    """
    model, training = prepared.model.to(device).train(), prepared.training
    optimizer = prepared.parts.optimizer().build(parameter_groups(model))
    ema = training.average.ema if training.average is not None else None
    average = EMA(model, ema) if ema is not None else None
    times, tokens, positions = [], 0, 0
    micro_batches = training.accumulate_steps
    for step in range(MEASURED + 1):
        began = time.monotonic()
        for number in range(micro_batches):
            share = shard_of(prepared.train_source.sampler, step, number * processes, processes * micro_batches)
            batch = prepared.train_source.rows[share].to(device)
            with mixed_precision(training.precision, device):
                loss = prepared.objective.loss(model, batch)
                extra = sum(collect_losses(model).values(), torch.zeros((), device=device))
            (loss.total / max(1, loss.num_predictions) + extra).backward()
            if step:
                positions += batch.positions * processes
                tokens += (batch.positions - batch.padding) * processes
        optimizer.step()
        optimizer.zero_grad()
        if average is not None:
            average.update(step + 1)
        synchronize(device)
        times.append(time.monotonic() - began)
    return sum(times[1:]) / MEASURED, tokens / MEASURED, positions / MEASURED


def _count(rows: Rows) -> int:
    if isinstance(rows, ExampleRows):
        return len(rows.encoded)
    return len(rows.store.ids) if isinstance(rows, WindowRows) else 0


def _machine(device: torch.device, training: TrainingSection) -> str:
    processes, nodes = training.devices * training.nodes, training.nodes
    name = device_title(device)
    on_nodes = f" on {nodes} nodes" if nodes > 1 else ""
    if not has_accelerator(training.accelerator):
        wanted = f"{processes} GPU{'s' if processes > 1 else ''}" if training.accelerator == "gpu" else "MPS"
        there = f"{wanted}{on_nodes} {'are' if processes > 1 else 'is'} wanted, and there is none here"
        return f"{there}: time and memory are of one process with {name}"
    return f"{processes} processes{on_nodes}, each with {name}" if processes > 1 else name


def _memory_note(strategy: str, processes: int) -> str:
    """A note where FSDP would hold less on each rank than was measured."""
    if strategy != "fsdp" or processes == 1:
        return ""
    return "; time and memory are of the whole model on one, of which fsdp gives each a share"


def _memory(device: torch.device) -> int:
    return peak_gpu_memory() if is_gpu(device) else peak_memory()
