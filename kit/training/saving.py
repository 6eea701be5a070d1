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
    unmeasured: dict[str, float] | None = None
    """The figures of the last step, where its measurement on held-out examples was given up and is still to be made."""

    def save(self, score: float | None = None, *, again: bool = False) -> None:
        """Write a checkpoint of the step that was made last; all processes call it together.

        again: even where there is one already, because more is known than when it was written.
        """
        step, model = self.module.step, self.module.model
        if self.saved == step and not again:
            return
        optimizer = joined_state(model, self._optimizer(), lowered_state(model, self._optimizer()))
        training: dict[str, Any] = {
            "step": step,
            "optimizer": optimizer,
            "patience": self.patience.state(),
            "average": None if self.average is None else joined(model, lowered(model, self.average.values)),
            "unmeasured": self.unmeasured,
            "precision": self.module.trainer.precision_plugin.state_dict(),
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
        self.unmeasured = checkpoint.training.get("unmeasured")
        if self.average is not None:
            averaged = checkpoint.training["average"]
            # An average that is new to the run begins with the weights of now, and not with those of the very first.
            self.average.load(dict(self.module.model.named_parameters()) if averaged is None else averaged)

    def restore_rest(self, checkpoint: Checkpoint, seed: int) -> None:
        """The optimizer, the scale of float16, and last of all the random generators of this process."""
        optimizer = self._optimizer()
        load_optimizer(optimizer, own_state(self.module.model, optimizer, checkpoint.training["optimizer"]))
        if precision := checkpoint.training.get("precision"):  # how float16 scales its losses
            self.module.trainer.precision_plugin.load_state_dict(precision)
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
