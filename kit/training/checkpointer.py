"""Checkpointer: gathers the state of a training into a checkpoint, and restores it from one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

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
from kit.files.atomic import DamagedCheckpoint
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
            with _must_fit(checkpoint, "training.json: average"):
                self.average.load(dict(self.module.model.named_parameters()) if averaged is None else averaged)

    def restore_rest(self, checkpoint: Checkpoint, seed: int) -> None:
        """Restore the optimizer, the loss scale of float16, and last of all the random generators of this process."""
        optimizer, state = self._optimizer(), checkpoint.training["optimizer"]
        with _must_fit(checkpoint, "training.json: optimizer"):
            groups, entries = optimizer.state_dict()["param_groups"], [*state["state"].values()]
            if [held["params"] for held in state["param_groups"]] != [own["params"] for own in groups]:
                raise ValueError("param_groups have other parameters")
            if not _alike(state["param_groups"], groups) or not all(_alike(entry, entries[0]) for entry in entries):
                raise TypeError("a value of param_groups or state is of another type than that of the other parameters")
            load_optimizer(optimizer, shard_optim_state(self.module.model, optimizer, state))
            # A fused kernel reads its state by the parameter's size without checking.
            for parameter in (one for group in optimizer.param_groups if group.get("fused") for one in group["params"]):
                held = optimizer.state.get(parameter, {}).values()
                if any(value.dim() and value.shape != parameter.shape for value in held if isinstance(value, Tensor)):
                    raise ValueError(f"state of a parameter of shape {list(parameter.shape)} has another shape")
        if precision := checkpoint.training["precision"]:  # the loss scale of float16
            with _must_fit(checkpoint, "training.json: precision"):
                self.module.trainer.precision_plugin.load_state_dict(precision)
        rank = data_parallel_rank(self._tensor_parallel)
        first = rank * checkpoint.training["tensor_parallel"]  # the ranks of a tensor-parallel group had the same state
        own = checkpoint.own[first] if first < len(checkpoint.own) else None
        if own is None:  # there are more processes than there were
            seed_all(seed, checkpoint.step, rank)
        else:
            with _must_fit(checkpoint, f"rank-{first}.json: own"):
                set_rng_state(own)

    @property
    def _tensor_parallel(self) -> int:
        return self.module.training_section.tensor_parallel

    def _optimizer(self) -> torch.optim.Optimizer:
        optimizer = self.module.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)
        return optimizer


@contextmanager
def _must_fit(checkpoint: Checkpoint, what: str) -> Iterator[None]:
    """Restore a part of the state inside; DamagedCheckpoint where torch or NumPy refuse it."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        text = f"{checkpoint.path}/{what} is not of this training: {error}"
        raise DamagedCheckpoint(f"{text}\n    remove that checkpoint to go on from the one before") from error


def _alike(held: Any, own: Any) -> bool:
    """Whether two values have the same types; switches such as `fused` depend on the device, and may be None."""
    if isinstance(own, dict):
        return isinstance(held, dict) and all(_alike(held[name], own[name]) for name in held.keys() & own.keys())
    if isinstance(own, (list, tuple)):
        return isinstance(held, (list, tuple)) and len(held) == len(own) and all(map(_alike, held, own))
    if own is None or isinstance(own, bool):
        return held is None or isinstance(held, bool)
    return isinstance(held, (int, float) if isinstance(own, (int, float)) else type(own))
