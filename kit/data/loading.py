"""The loader of one process: batches of its shares, made here or by worker processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from kit.data.batch import Batch
from kit.data.rows import Rows
from kit.data.steps import Share, StepBatches


class ShareDataset(Dataset[Batch]):
    """`Rows` as torch's loader wants them: the index is a share, the item its batch."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __getitem__(self, share: Share) -> Batch:
        return self.rows[share]


def as_it_is(batch: Any) -> Any:
    """The collate function of a loader whose items are batches already; named, so that workers can unpickle it."""
    return batch


def leave_with_training(worker: int) -> None:
    """End this worker when the process that trains is gone, even killed.

    torch's workers watch their parent, which is the server that forks them; and the server waits for its workers.
    """
    training = multiprocessing.parent_process()
    if training is not None:
        threading.Thread(target=_end_after, args=(training,), daemon=True).start()


def _end_after(training: BaseProcess) -> None:
    training.join()
    os._exit(1)


def load(rows: Rows, shares: StepBatches, *, workers: int = 0, pin: bool = False) -> DataLoader[Batch]:
    """A loader over shares; what it gives does not depend on the number of workers."""
    several: dict[str, Any] = {}
    if workers:
        # Workers are started from a clean server: a fork of a process with threads can hang.
        several = {"num_workers": workers, "multiprocessing_context": "forkserver", "prefetch_factor": 4}
        several["worker_init_fn"] = leave_with_training
    return DataLoader(
        ShareDataset(rows),
        batch_size=None,
        sampler=shares,
        collate_fn=as_it_is,
        pin_memory=pin,
        # Its own generator: a loader draws a number at its start, which would move the state that dropout uses.
        generator=torch.Generator().manual_seed(0),
        **several,
    )
