"""The Lightning module: one step of training, and the figures of it that all processes agree on."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytorch_lightning as lightning
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_

from kit.contracts.objective import Objective
from kit.contracts.optimizer import Optimizer, parameter_groups
from kit.contracts.part import collect_losses
from kit.contracts.schedule import Schedule
from kit.data.batch import Batch
from kit.model.families import Model
from kit.recipe.training_section import TrainingSection
from kit.training.agreement import processes, summed
from kit.training.dividing import divide
from kit.training.finite import diagnosis
from kit.training.joining import gradient_norm
from kit.training.sharding import shard


class TrainingModule(lightning.LightningModule):
    """A model with its objective; `figures` holds what the last step came to, the same on every process."""

    def __init__(
        self,
        model: Model,
        objective: Objective,
        optimizer: Optimizer,
        schedule: Schedule,
        training: TrainingSection,
    ) -> None:
        super().__init__()
        self.model = model
        self.objective = objective
        self.optimizer = optimizer
        self.factor = schedule.over(training.steps)
        self.training_section = training
        self.asked_to_stop: Callable[[], bool] = lambda: False
        self.mark: Callable[[str], None] = lambda doing: None
        """Tells other processes how far this one is."""
        self.stopping = False
        """Whether some process was asked to stop; all learn of it at the end of the same step."""
        self.figures: dict[str, float] = {}
        self.step = 0
        """How many updates were made."""
        self._rates: list[float] = []
        self._named: dict[str, nn.Parameter] = {}
        """The model's parameters, as the optimizer knows them."""
        self._pieces: list[tuple[Batch, dict[str, Tensor]]] = []
        self._random = torch.get_rng_state()

    def configure_model(self) -> None:
        """Spread the model over processes, where that is how it is trained."""
        if self.device_mesh is not None:
            divide(self.model, self.device_mesh["tensor_parallel"])
            shard(self.model, self.device_mesh["data_parallel"], self.mark)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimizer alone: the rate is a function of the step, and is set anew at each."""
        built = self.optimizer.build(parameter_groups(self.model))
        self._rates = [group["lr"] for group in built.param_groups]
        self._named = dict(self.model.named_parameters())
        return built

    def training_step(self, batch: Batch, number: int) -> Tensor:
        """The loss of one piece of a batch, scaled so that pieces and processes average to the global mean."""
        if not self._pieces:
            self._random = torch.get_rng_state()
            self._set_rate(batch.step)
        loss = self.objective.loss(self.model, batch)
        scale = batch.token_scale if self.objective.per_token else batch.row_scale
        total = loss.total * scale
        figures = {"loss": loss.nats * scale}
        for name, value in collect_losses(self.model).items():
            # Each share counts by how much it predicts, so that the mean does not depend on how a batch is cut.
            weighed = value * (loss.count * scale)
            total = total + weighed
            figures[name] = weighed.detach()
        figures["objective"] = total.detach()
        self._pieces.append((batch, figures))
        return total

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Between the gradient and the update: agree on the figures, stop where something is not finite, and clip."""
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None and getattr(optimizer, "_step_supports_amp_scaling", False):
            scaler.unscale_(optimizer)  # a fused optimizer would do it in its update, which is too late to clip
        gradients = {name: one.grad for name, one in self._named.items() if one.grad is not None}
        norm = gradient_norm(self.model, gradients)
        self._agree(float(norm))
        if self.training_section.clip is not None:
            clip_grads_with_norm_([self._named[name] for name in gradients], self.training_section.clip, norm)

    def _agree(self, norm: float) -> None:
        batches = [batch for batch, _ in self._pieces]
        names = list(self._pieces[0][1])
        own = {name: float(sum(found[name] for _, found in self._pieces)) for name in names}
        # In float16 a gradient that overflows is met by the scaler, which skips the update and lowers its scale.
        finite = all(map(math.isfinite, own.values())) and (
            math.isfinite(norm) or self.training_section.precision == "float16"
        )
        places, padding = sum(batch.positions for batch in batches), sum(batch.padding for batch in batches)
        numbers = [own[name] for name in names] + [places, padding, float(not finite), float(self.asked_to_stop())]
        *values, places_all, padding_all, broken, asked = summed(numbers)
        if broken:
            context = self.trainer.precision_plugin.forward_context
            raise diagnosis(self.model, self.objective, batches, self._random, context)
        share = processes() * len(self._pieces)
        self.figures = {name: value / share for name, value in zip(names, values, strict=True)}
        # Processes that share each layer see the same tokens.
        tokens = (places_all - padding_all) / self.training_section.tensor
        self.figures |= {"gradient": norm, "rate": self._current_rate, "tokens": tokens}
        self.figures["padding"] = padding_all / max(1, places_all)
        self.stopping = bool(asked)
        self.step = batches[0].step + 1
        self._pieces = []

    def _set_rate(self, step: int) -> None:
        optimizer = self.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)
        factor = self.factor(step)
        for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        self._current_rate = self._rates[0] * factor if self._rates else 0.0

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """A batch knows how to move itself."""
        return batch if device.type == "cpu" else batch.to(device, non_blocking=True)
