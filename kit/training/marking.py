"""Tells the watch how far a process is, so that one that is stuck can be told from those that wait for it."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as lightning
from torch import Tensor

from kit.training.group import Group
from kit.training.module import TrainingModule


class Marks(lightning.Callback):
    """Goes before all other callbacks."""

    def __init__(self, group: Group, module: TrainingModule) -> None:
        self.group = group
        self.module = module

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """It has its batch."""
        self.group.mark(f"computing step {self.module.step + 1}")

    def on_before_backward(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, loss: Tensor
    ) -> None:
        """It has its loss, and needs the others from here on."""
        self.group.mark(f"computing the gradient of step {self.module.step + 1}")

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """The step is made."""
        self.group.mark(f"measuring after step {self.module.step}")


class LastMark(lightning.Callback):
    """Goes after all other callbacks."""

    def __init__(self, group: Group, module: TrainingModule) -> None:
        self.group = group
        self.module = module

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """What comes next is the data of the next step."""
        self.group.mark(f"reading the batch of step {self.module.step + 1}")
