"""What a checkpoint of a training holds, and going on from one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kit.runs.parts import Checkpoint, Snapshot
from kit.runs.store import CheckpointStore
from kit.training import randomness
from kit.training.agreement import data_process
from kit.training.averaging import Average
from kit.training.joining import joined, joined_state, own_state, writes
from kit.training.module import TrainingModule
from kit.training.patience import Patience
from kit.training.placing import load_optimizer, load_weights
from kit.training.scalars import lowered, lowered_state


@dataclass
class Saver:
    """Saves the state of a training, and restores it."""

    store: CheckpointStore
    module: TrainingModule
    patience: Patience
    average: Average | None = None
    saved: int | None = None
    """The step of the newest checkpoint."""

    def save(self, score: float | None = None) -> None:
        """Write a checkpoint of the step that was made last; all processes call it together."""
        step, model = self.module.step, self.module.model
        if self.saved == step:
            return
        optimizer = joined_state(model, self._optimizer(), lowered_state(model, self._optimizer()))
        training: dict[str, Any] = {
            "step": step,
            "optimizer": optimizer,
            "patience": self.patience.state(),
            "average": None if self.average is None else joined(model, lowered(model, self.average.values)),
            "tensor": self._tensor,
        }
        weights, own = joined(model, lowered(model, model.state_dict())), randomness.take()
        self.store.save(step, Snapshot(weights, training, own) if writes(model) else Snapshot({}, None, own), score)
        self.saved = step

    def restore_weights(self, checkpoint: Checkpoint) -> None:
        """The model as it was; before the optimizer exists."""
        load_weights(self.module.model, checkpoint.weights)
        self.module.step = self.saved = checkpoint.step
        self.patience.restore(checkpoint.training["patience"])
        if self.average is not None and checkpoint.training["average"] is not None:
            self.average.load(checkpoint.training["average"])

    def restore_rest(self, checkpoint: Checkpoint, seed: int) -> None:
        """The optimizer, and last of all the random generators of this process."""
        optimizer = self._optimizer()
        load_optimizer(optimizer, own_state(self.module.model, optimizer, checkpoint.training["optimizer"]))
        rank = data_process(self._tensor)
        first = rank * checkpoint.training.get("tensor", 1)  # processes that shared each layer had the same
        own = checkpoint.own[first] if first < len(checkpoint.own) else None
        if own is None:  # there are more processes than there were
            randomness.begin(seed, checkpoint.step, rank)
        else:
            randomness.put(own)

    @property
    def _tensor(self) -> int:
        return self.module.training_section.tensor

    def _optimizer(self) -> torch.optim.Optimizer:
        optimizer = self.module.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)
        return optimizer
