"""TrainingModule: an optimizer step as Lightning calls it: loss, reduced figures, gradient clipping, learning rate."""

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
from kit.distributed.collectives import all_reduce_sum, world_size
from kit.distributed.fsdp import shard
from kit.distributed.state import gradient_norm
from kit.distributed.tensor_parallel import parallelize
from kit.kernels.devices import is_cpu
from kit.model.families import Model
from kit.recipe.sections import TrainingSection
from kit.sequence.batch import Batch
from kit.training.nan_check import diagnose_non_finite


class TrainingModule(lightning.LightningModule):
    """A model with its objective and optimizer; `figures` are those of the last step, the same on every rank."""

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
        self.rate_factor = schedule.over(training.steps)
        self.training_section = training
        self.stop_requested: Callable[[], bool] = lambda: False
        """Whether this process was asked to stop."""
        self.report_progress: Callable[[str], None] = lambda activity: None
        """Tells the watchdog what this process does."""
        self.stopping = False
        """Whether a rank was asked to stop; all ranks learn of it at the end of the same step."""
        self.figures: dict[str, float] = {}
        self.step = 0
        """How many updates have been made."""
        self._rates: list[float] = []
        self._parameters_by_name: dict[str, nn.Parameter] = {}
        """The parameters that the optimizer updates; of a sharded model, the shards."""
        self._micro_batches: list[tuple[Batch, dict[str, Tensor]]] = []
        """The micro-batches of the current step, with their figures."""
        self._rng_state = torch.get_rng_state()
        """As it was before the current step."""

    def configure_model(self) -> None:
        """Shard the model, by tensor parallelism and then by FSDP, where the strategy has a device mesh."""
        if self.device_mesh is not None:
            parallelize(self.model, self.device_mesh["tensor_parallel"])
            shard(self.model, self.device_mesh["data_parallel"], self.report_progress)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Build the optimizer; the learning rate is a function of the step and set before each one."""
        built = self.optimizer.build(parameter_groups(self.model))
        self._rates = [group["lr"] for group in built.param_groups]
        self._parameters_by_name = dict(self.model.named_parameters())
        return built

    def training_step(self, batch: Batch, number: int) -> Tensor:
        """The loss of a micro-batch, scaled so that the mean over micro-batches and ranks is the global mean."""
        if not self._micro_batches:
            self._rng_state = torch.get_rng_state()
            self._set_rate(batch.step)
        loss = self.objective.loss(self.model, batch)
        scale = batch.token_scale if self.objective.per_token else batch.row_scale
        total = loss.total * scale
        figures = {"loss": loss.nll_sum * scale}
        for name, value in collect_losses(self.model).items():
            # Weighted by the number of predictions, so that the mean does not depend on how a batch is split.
            weighted = value * (loss.num_predictions * scale)
            total = total + weighted
            figures[name] = weighted.detach()
        figures["objective"] = total.detach()
        self._micro_batches.append((batch, figures))
        return total

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the gradient norm, once all ranks have the same figures and no loss or gradient is infinite or NaN."""
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None and getattr(optimizer, "_step_supports_amp_scaling", False):
            scaler.unscale_(optimizer)  # a fused optimizer would do it in its update, which is too late to clip
        gradients = {name: one.grad for name, one in self._parameters_by_name.items() if one.grad is not None}
        norm = gradient_norm(self.model, gradients)
        self._all_reduce_figures(float(norm))
        if self.training_section.clip_grad_norm is not None:
            clipped = [self._parameters_by_name[name] for name in gradients]
            clip_grads_with_norm_(clipped, self.training_section.clip_grad_norm, norm)

    def _all_reduce_figures(self, norm: float) -> None:
        """One all-reduce per step: the figures, finiteness and the stop request. Collective."""
        batches = [batch for batch, _ in self._micro_batches]
        names = list(self._micro_batches[0][1])
        own = {name: float(sum(found[name] for _, found in self._micro_batches)) for name in names}
        # In float16 a gradient that overflows is met by the scaler, which skips the update and lowers its scale.
        finite = all(map(math.isfinite, own.values())) and (
            math.isfinite(norm) or self.training_section.precision == "float16"
        )
        positions, padding = sum(batch.positions for batch in batches), sum(batch.padding for batch in batches)
        numbers = [own[name] for name in names] + [positions, padding, float(not finite), float(self.stop_requested())]
        *values, positions_all, padding_all, not_finite, stop = all_reduce_sum(numbers)
        if not_finite:
            context = self.trainer.precision_plugin.forward_context
            raise diagnose_non_finite(self.model, self.objective, batches, self._rng_state, context)
        parts = world_size() * len(self._micro_batches)
        self.figures = {name: value / parts for name, value in zip(names, values, strict=True)}
        # The ranks of a tensor-parallel group see the same tokens.
        tokens = (positions_all - padding_all) / self.training_section.tensor_parallel
        self.figures |= {"gradient_norm": norm, "learning_rate": self._current_rate, "tokens": tokens}
        self.figures["padding"] = padding_all / max(1, positions_all)
        self.stopping = bool(stop)
        self.step = batches[0].step + 1
        self._micro_batches = []

    def _set_rate(self, step: int) -> None:
        optimizer = self.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)
        factor = self.rate_factor(step)
        for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        self._current_rate = self._rates[0] * factor if self._rates else 0.0

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """Move a batch to the device, asynchronously."""
        return batch if is_cpu(device) else batch.to(device, non_blocking=True)
