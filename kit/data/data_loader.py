"""Data loading: shards of each global batch for one process and each accumulation step, and a DataLoader over them."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from typing import Any

import torch
import torch.utils.data
from torch.utils.data import DataLoader, Dataset

from kit.data.rows import Rows
from kit.data.samplers import BatchShard, Sampler, shard_of
from kit.sequence.batch import Batch


class ShardSampler(torch.utils.data.Sampler[BatchShard]):
    """Yields the batch shards of one rank, step by step: the `sampler` of a DataLoader with `batch_size=None`.

    The global batch of a step does not depend on the number of processes (`world`) or of accumulation steps.
    """

    def __init__(
        self, sampler: Sampler, start: int, stop: int, *, rank: int = 0, world: int = 1, accumulate_steps: int = 1
    ) -> None:
        self.sampler = sampler
        self.start = start
        self.stop = stop
        self.rank = rank
        self.world = world
        self.accumulate_steps = accumulate_steps

    def __len__(self) -> int:
        return max(0, self.stop - self.start) * self.accumulate_steps

    def __iter__(self) -> Iterator[BatchShard]:
        num_shards = self.world * self.accumulate_steps
        for step in range(self.start, self.stop):
            for piece in range(self.accumulate_steps):
                yield shard_of(self.sampler, step, piece * self.world + self.rank, num_shards)


class ShardDataset(Dataset[Batch]):
    """`Rows` as a torch dataset: the index is a batch shard, the item its batch."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __getitem__(self, shard: BatchShard) -> Batch:
        return self.rows[shard]


def identity_collate(batch: Any) -> Any:
    """A collate function for items that are batches already; a named function, so that workers can unpickle it."""
    return batch


def exit_with_parent(worker: int) -> None:
    """Ends a worker process when the training process ends, even if killed.

    torch's workers watch their parent, which is the fork server, and the fork server waits for its workers.
    """
    training = multiprocessing.parent_process()
    if training is not None:
        threading.Thread(target=_exit_after, args=(training,), daemon=True).start()


def _exit_after(training: BaseProcess) -> None:
    training.join()
    os._exit(1)


def make_loader(rows: Rows, shards: ShardSampler, *, workers: int = 0, pin: bool = False) -> DataLoader[Batch]:
    """A DataLoader over batch shards; its batches do not depend on the number of workers."""
    worker_options: dict[str, Any] = {}
    if workers:
        # Workers start from a fork server: a fork of a process with threads can hang.
        worker_options = {"num_workers": workers, "multiprocessing_context": "forkserver", "prefetch_factor": 4}
        worker_options["worker_init_fn"] = exit_with_parent
    return DataLoader(
        ShardDataset(rows),
        batch_size=None,
        sampler=shards,
        collate_fn=identity_collate,
        pin_memory=pin,
        # A generator of its own: a loader draws a seed at its start, which would advance the global state of dropout.
        generator=torch.Generator().manual_seed(0),
        **worker_options,
    )
