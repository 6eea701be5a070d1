"""Head masks: gates on the outputs of attention heads, the gradient of the loss by them, and losses under ablation.

Michel et al. 2019, Are Sixteen Heads Really Better than One?
Shapes: B batch, H heads, Q queries, F width of a head's output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from kit.contracts.objective import Loss
from kit.errors import KitError
from kit.inspection.example_reader import ExampleIds
from kit.inspection.inspector import Inspector
from kit.model.families import Model
from kit.plugin.component import BuildContext
from kit.sequence.batch import Batch
from kit.sequence.observer import AttentionObserver

HeadId = tuple[str, int]
"""The path of an attention module, such as `decoder.0.attention`, and the index of a head in it."""


class HeadMask(AttentionObserver):
    """Multiplies the output of every head by its gate; modules without gates are left alone."""

    def __init__(self, gates: Mapping[str, Tensor]) -> None:
        self.gates = gates
        """[B or 1, H] by module path."""

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        """Scale the head outputs."""
        gate = self.gates.get(build_context.name)
        return out_BHQF if gate is None else out_BHQF * gate.to(out_BHQF)[:, :, None, None]


class GradientGates(AttentionObserver):
    """Multiplies every head's output by a gate of 1 that requires a gradient."""

    def __init__(self) -> None:
        self.gates: dict[str, Tensor] = {}

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        """One gate for each example, so that each has its own gradient; a module that runs again uses it again."""
        name = build_context.name
        if name not in self.gates:
            self.gates[name] = torch.ones(out_BHQF.shape[:2], device=out_BHQF.device, requires_grad=True)
        return out_BHQF * self.gates[name].to(out_BHQF.dtype)[:, :, None, None]


class PatchedHeads(AttentionObserver):
    """Replaces the outputs of some heads by fixed vectors (activation patching)."""

    def __init__(self, outputs: Mapping[HeadId, Tensor]) -> None:
        self.outputs = outputs
        """[F] for each head."""

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        """Replace the head outputs."""
        for (name, head), vector_F in self.outputs.items():
            if name == build_context.name:
                out_BHQF = out_BHQF.clone()
                out_BHQF[:, head] = vector_F.to(out_BHQF)
        return out_BHQF


class _MeanOutputs(AttentionObserver):
    """Averages the output of each head over all queries of batches without padding."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        """Add to the sums."""
        name, sums = build_context.name, out_BHQF.detach().sum((0, 2))
        self._sums[name] = self._sums.get(name, 0) + sums
        self._counts[name] = self._counts.get(name, 0) + out_BHQF.shape[0] * out_BHQF.shape[2]
        return out_BHQF

    def means(self) -> dict[HeadId, Tensor]:
        """[F]: the mean output of each head."""
        found = {}
        for name, sums_HF in self._sums.items():
            for head, sum_F in enumerate(sums_HF):
                found[name, head] = sum_F / self._counts[name]
        return found


class _ObservedModel:
    """A model as an objective calls it, with an observer of its attention."""

    def __init__(self, model: Model, observer: AttentionObserver | None) -> None:
        self._model = model
        self._observer = observer

    def __call__(self, source: Any = None, target: Any = None, packed: bool = False) -> Tensor:
        logits: Tensor = self._model(source, target, packed, self._observer)
        return logits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def has_loss(inspector: Inspector, rows: Sequence[ExampleIds]) -> bool:
    """Whether these examples have a loss: there is an objective, and the labels that it needs."""
    objective = inspector.objective
    return objective is not None and (objective.per_token or all(row.label is not None for row in rows))


def observed_loss(inspector: Inspector, batch: Batch, observer: AttentionObserver | None = None) -> Loss:
    """The loss of a batch by the objective of the run, with the loss of each row."""
    if inspector.objective is None:
        raise KitError("the recipe of this run names no data and training, so there is no loss to look at")
    if not inspector.objective.per_token and batch.labels is None:
        raise KitError("texts without their classes have no loss; take examples of the run's data")
    loss = inspector.objective.loss(cast(Model, _ObservedModel(inspector.model, observer)), batch)
    if loss.rows is None:
        raise KitError(f"the objective {inspector.objective.name()} does not say the loss of each text")
    return loss


def head_gradients(inspector: Inspector, rows: Sequence[ExampleIds]) -> dict[str, Tensor]:
    """[B, H] by module path: the gradient of each example's loss a prediction by the gate of each head."""
    batch = inspector.reader.batch(rows, inspector.device)
    gates = GradientGates()
    with torch.enable_grad():
        loss = observed_loss(inspector, batch, gates)
        assert loss.rows is not None
        # An example's loss depends on its own gates alone, so the gradient of the sum is the gradient of each.
        found = torch.autograd.grad(loss.total, list(gates.gates.values()), allow_unused=True)
    predictions_B1 = loss.rows[:, 1:2].clamp(min=1)
    return {
        name: torch.zeros_like(gate) if gradient is None else gradient / predictions_B1
        for (name, gate), gradient in zip(gates.gates.items(), found, strict=True)
    }


def sequence_losses(
    inspector: Inspector, rows: Sequence[ExampleIds], observer: AttentionObserver | None = None, batch_size: int = 32
) -> Tensor:
    """[examples]: the loss of each example in nats a prediction."""
    found = []
    with torch.inference_mode():
        for start in range(0, len(rows), batch_size):
            batch = inspector.reader.batch(rows[start : start + batch_size], inspector.device)
            each = observed_loss(inspector, batch, observer).rows
            assert each is not None
            found.append((each[:, 0] / each[:, 1].clamp(min=1)).cpu())
    return torch.cat(found)


def mean_head_outputs(inspector: Inspector, rows: Sequence[ExampleIds]) -> dict[HeadId, Tensor]:
    """[F]: the output of each head, averaged over all queries of these examples."""
    observer = _MeanOutputs()
    for row in rows:  # one by one, so that there is no padding
        sequence_losses(inspector, [row], observer)
    return observer.means()


def ablated(heads: Sequence[HeadId], head_counts: Mapping[str, int]) -> HeadMask:
    """The mask with gates of 0 for these heads and 1 for the others; head_counts: the heads of each module."""
    gates = {name: torch.ones(1, head_counts[name]) for name in {site for site, _ in heads}}
    for name, head in heads:
        gates[name][0, head] = 0.0
    return HeadMask(gates)
