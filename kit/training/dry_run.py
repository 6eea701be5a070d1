"""What a training would take, told without training: a few real steps are measured, and nothing is written."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kit.contracts.optimizer import parameter_groups
from kit.contracts.part import collect_losses
from kit.data.packing import WindowRows
from kit.data.rows import ExampleRows, Rows
from kit.data.steps import share_of
from kit.devices import has_accelerator
from kit.memory import keep_memory, peak_memory
from kit.recipe.sections import Recipe
from kit.recipe.training_section import TrainingSection
from kit.training.averaging import Average
from kit.training.preparing import Prepared, prepare
from kit.training.quiet import silence

if TYPE_CHECKING:
    from kit.kit import Kit

MEASURED = 4


@dataclass(frozen=True)
class TrainingPlan:
    """What would run, on what, how long, and how much memory it would take."""

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
    """Real tokens in a global batch, on average."""
    padding: float
    measured: int
    seconds_a_step: float
    bytes: int
    """The most memory that this process took in the steps that were measured."""


def plan(recipe: Recipe, kit: Kit, folder: Path | None = None) -> TrainingPlan:
    """Get a recipe ready and time a few steps of it on this process."""
    silence()
    torch.set_flush_denormal(True)
    keep_memory()
    prepared = prepare(recipe, kit, folder)
    training, sampler = prepared.training, prepared.feed.sampler
    device = _device(training.accelerator)
    processes = training.devices * training.nodes
    seconds, tokens, places = _measure(prepared, device, processes // training.tensor)
    return TrainingPlan(
        parameters=sum(parameter.numel() for parameter in prepared.model.parameters()),
        machine=_machine(device, training) + _whole(training.strategy, processes),
        objective=prepared.objective.part_name(),
        rows=_count(prepared.feed.rows),
        left_out=prepared.feed.left_out,
        batches_per_epoch=sampler.batches_per_epoch,
        steps=training.steps,
        epochs=training.steps / sampler.batches_per_epoch,
        tokens_a_step=tokens,
        padding=1 - tokens / places,
        measured=MEASURED,
        seconds_a_step=seconds,
        bytes=_memory(device),
    )


def _measure(prepared: Prepared, device: torch.device, processes: int) -> tuple[float, float, float]:
    """Seconds, real tokens and places of a step; the first step is not counted, since it warms up.

    processes: among how many a batch is shared out. Layers are whole, even where processes are to share them.
    """
    model, training = prepared.model.to(device).train(), prepared.training
    optimizer = prepared.choices.optimizer().build(parameter_groups(model))
    ema = training.average.ema if training.average is not None else None
    average = Average(model, ema) if ema is not None else None
    times, tokens, places = [], 0, 0
    pieces = training.accumulate
    for step in range(MEASURED + 1):
        began = time.monotonic()
        for piece in range(pieces):
            share = share_of(prepared.feed.sampler, step, piece * processes, processes * pieces)
            batch = prepared.feed.rows[share].to(device)
            with _computing_in(training.precision, device):
                loss = prepared.objective.loss(model, batch)
                extra = sum(collect_losses(model).values(), torch.zeros((), device=device))
            (loss.total / max(1, loss.count) + extra).backward()
            if step:
                places += batch.positions * processes
                tokens += (batch.positions - batch.padding) * processes
        optimizer.step()
        optimizer.zero_grad()
        if average is not None:
            average.update(step + 1)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.monotonic() - began)
    return sum(times[1:]) / MEASURED, tokens / MEASURED, places / MEASURED


def _computing_in(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """As a training computes: matrices in half precision, weights and sums in float32."""
    if precision == "float32":
        return nullcontext()
    # On a CPU a training takes bfloat16 for both.
    half = torch.float16 if precision == "float16" and device.type != "cpu" else torch.bfloat16
    return torch.autocast(device.type, dtype=half, cache_enabled=False)


def _count(rows: Rows) -> int:
    if isinstance(rows, ExampleRows):
        return len(rows.encoded)
    return len(rows.store.ids) if isinstance(rows, WindowRows) else 0


def _device(accelerator: str) -> torch.device:
    """What is measured on: what the recipe wants, or the CPU where that is not here."""
    if accelerator in ("auto", "gpu") and torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if accelerator in ("gpu", "mps") and has_accelerator(accelerator) else "cpu")


def _machine(device: torch.device, training: TrainingSection) -> str:
    processes, nodes = training.devices * training.nodes, training.nodes
    threads = torch.get_num_threads()
    cpu = f"{threads} CPU thread{'s' if threads > 1 else ''}"
    name = torch.cuda.get_device_name() if device.type == "cuda" else "MPS" if device.type == "mps" else cpu
    on_nodes = f" on {nodes} nodes" if nodes > 1 else ""
    if not has_accelerator(training.accelerator):
        wanted = f"{processes} GPU{'s' if processes > 1 else ''}" if training.accelerator == "gpu" else "MPS"
        there = f"{wanted}{on_nodes} {'are' if processes > 1 else 'is'} wanted, and there is none here"
        return f"{there}: time and memory are of one process with {cpu}"
    return f"{processes} processes{on_nodes}, each with {name}" if processes > 1 else name


def _whole(strategy: str, processes: int) -> str:
    """What the memory is of, where a process would hold less than was measured."""
    if strategy != "fsdp" or processes == 1:
        return ""
    return "; time and memory are of the whole model on one, of which fsdp gives each a share"


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated())
    return peak_memory()
