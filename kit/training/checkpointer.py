"""Checkpointer: gathers the state of a training into a checkpoint, and restores it from one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kit.checkpoints.contents import Checkpoint, Snapshot
from kit.checkpoints.store import CheckpointStore
from kit.distributed.collectives import data_parallel_rank
from kit.distributed.fsdp import squeeze_optim_scalars, squeeze_scalars
from kit.distributed.state import (
    gather_optim_state,
    gather_state_dict,
    is_tensor_parallel_main,
    load_optimizer,
    load_weights,
    shard_optim_state,
)
from kit.kernels.rng_state import get_rng_state, seed_all, set_rng_state
from kit.training.evaluator import EarlyStopping
from kit.training.module import TrainingModule
from kit.training.weight_averaging import EMA


@dataclass
class Checkpointer:
    """Saves the state of a training, and restores it."""

    store: CheckpointStore
    module: TrainingModule
    early_stopping: EarlyStopping
    average: EMA | None = None
    saved: int | None = None
    """The step of the newest checkpoint."""
    pending_validation: dict[str, float] | None = None
    """The training figures of the last step, where its validation was interrupted and is still to be made."""

    def save(self, score: float | None = None, *, again: bool = False) -> None:
        """Write a checkpoint of the last step. Collective: every rank must call it.

        again: write it even where there is one of this step, because the validation has been made since.
        """
        step, model = self.module.step, self.module.model
        if self.saved == step and not again:
            return
        optimizer = gather_optim_state(model, self._optimizer(), squeeze_optim_scalars(model, self._optimizer()))
        average = None
        if self.average is not None:
            average = gather_state_dict(model, squeeze_scalars(model, self.average.values))
        training: dict[str, Any] = {
            "step": step,
            "optimizer": optimizer,
            "early_stopping": self.early_stopping.state_dict(),
            "average": average,
            "pending_validation": self.pending_validation,
            "precision": self.module.trainer.precision_plugin.state_dict(),
            "tensor_parallel": self._tensor_parallel,
        }
        weights, own = gather_state_dict(model, squeeze_scalars(model, model.state_dict())), get_rng_state()
        is_writer = is_tensor_parallel_main(model)
        self.store.save(step, Snapshot(weights, training, own) if is_writer else Snapshot({}, None, own), score)
        self.saved = step

    def restore_weights(self, checkpoint: Checkpoint) -> None:
        """Restore what there is before the optimizer: the weights, the step, early stopping and the moving average."""
        load_weights(self.module.model, checkpoint.weights)
        self.module.step = self.saved = checkpoint.step
        self.early_stopping.load_state_dict(checkpoint.training["early_stopping"])
        self.pending_validation = checkpoint.training["pending_validation"]
        if self.average is not None:
            averaged = checkpoint.training["average"]
            # An average that is new to the run begins with the weights of now, and not with those of the very first.
            self.average.load(dict(self.module.model.named_parameters()) if averaged is None else averaged)

    def restore_rest(self, checkpoint: Checkpoint, seed: int) -> None:
        """Restore the optimizer, the loss scale of float16, and last of all the random generators of this process."""
        optimizer = self._optimizer()
        load_optimizer(optimizer, shard_optim_state(self.module.model, optimizer, checkpoint.training["optimizer"]))
        if precision := checkpoint.training["precision"]:  # the loss scale of float16
            self.module.trainer.precision_plugin.load_state_dict(precision)
        rank = data_parallel_rank(self._tensor_parallel)
        first = rank * checkpoint.training["tensor_parallel"]  # the ranks of a tensor-parallel group had the same state
        own = checkpoint.own[first] if first < len(checkpoint.own) else None
        if own is None:  # there are more processes than there were
            seed_all(seed, checkpoint.step, rank)
        else:
            set_rng_state(own)

    @property
    def _tensor_parallel(self) -> int:
        return self.module.training_section.tensor_parallel

    def _optimizer(self) -> torch.optim.Optimizer:
        optimizer = self.module.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)
        return optimizer
