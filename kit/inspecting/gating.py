"""Gates in front of what heads give: to see how the loss depends on each head, and what a model does without it.

Shapes: B texts, H heads, Q queries, F width of what a head gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from kit.component import Site
from kit.contracts.objective import Loss
from kit.data.batch import Batch
from kit.errors import KitError
from kit.inspecting.inspector import Inspector
from kit.inspecting.reading import Ids
from kit.model.families import Model
from kit.watching import Watcher

Head = tuple[str, int]
"""A site, such as `decoder.0.attention`, and the number of a head there."""


class HeadGates(Watcher):
    """Multiplies what each head gives by its gate; what has no gate stays as it is."""

    def __init__(self, gates: Mapping[str, Tensor]) -> None:
        self.gates = gates
        """By site, [B or 1, H]."""

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        """Gate them."""
        gate = self.gates.get(site.name)
        return out_BHQF if gate is None else out_BHQF * gate.to(out_BHQF)[:, :, None, None]


class OpenGates(Watcher):
    """Puts a gate of 1 in front of every head of every text, whose slope is wanted."""

    def __init__(self) -> None:
        self.gates: dict[str, Tensor] = {}

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        """A gate for each text, so that each has a slope of its own; one that is used in several steps is the same."""
        if site.name not in self.gates:
            self.gates[site.name] = torch.ones(out_BHQF.shape[:2], device=out_BHQF.device, requires_grad=True)
        return out_BHQF * self.gates[site.name].to(out_BHQF.dtype)[:, :, None, None]


class FixedHeads(Watcher):
    """Puts one vector in the place of what some heads give, whatever the text."""

    def __init__(self, given: Mapping[Head, Tensor]) -> None:
        self.given = given
        """[F] for each head."""

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        """Replace them."""
        for (name, head), vector_F in self.given.items():
            if name == site.name:
                out_BHQF = out_BHQF.clone()
                out_BHQF[:, head] = vector_F.to(out_BHQF)
        return out_BHQF


class HeadMeans(Watcher):
    """Takes the mean of what each head gives over all queries; for texts without padding."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        """Count them in."""
        sums = out_BHQF.detach().sum((0, 2))
        self._sums[site.name] = self._sums.get(site.name, 0) + sums
        self._counts[site.name] = self._counts.get(site.name, 0) + out_BHQF.shape[0] * out_BHQF.shape[2]
        return out_BHQF

    def means(self) -> dict[Head, Tensor]:
        """The mean of each head: [F]."""
        found = {}
        for name, sums_HF in self._sums.items():
            for head, sum_F in enumerate(sums_HF):
                found[name, head] = sum_F / self._counts[name]
        return found


class _Watched:
    """A model as an objective sees it, with somebody watching."""

    def __init__(self, model: Model, watcher: Watcher | None) -> None:
        self._model = model
        self._watcher = watcher

    def __call__(self, source: Any = None, target: Any = None, packed: bool = False) -> Tensor:
        scores: Tensor = self._model(source, target, packed, self._watcher)
        return scores

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def can_tell_loss(inspector: Inspector, rows: Sequence[Ids]) -> bool:
    """Whether there is an objective, and whatever it wants to know of these texts."""
    objective = inspector.objective
    return objective is not None and (objective.per_token or all(row.label is not None for row in rows))


def loss_of(inspector: Inspector, batch: Batch, watcher: Watcher | None = None) -> Loss:
    """The loss of a batch by the objective of the run, with its rows."""
    if inspector.objective is None:
        raise KitError("the recipe of this run names no data and training, so there is no loss to look at")
    if not inspector.objective.per_token and batch.labels is None:
        raise KitError("texts without their classes have no loss; take examples of the run's data")
    loss = inspector.objective.loss(cast(Model, _Watched(inspector.model, watcher)), batch)
    if loss.rows is None:
        raise KitError(f"the objective {inspector.objective.part_name()} does not say the loss of each text")
    return loss


def head_slopes(inspector: Inspector, rows: Sequence[Ids]) -> dict[str, Tensor]:
    """By site, [B, H]: how the loss of each text, a prediction, changes with the gate of each head."""
    batch = inspector.reader.batch(rows, inspector.device)
    gates = OpenGates()
    with torch.enable_grad():
        loss = loss_of(inspector, batch, gates)
        assert loss.rows is not None
        # A text's loss depends on its own gates alone, so the slope of the sum is the slope of each.
        found = torch.autograd.grad(loss.total, list(gates.gates.values()), allow_unused=True)
    predictions_B1 = loss.rows[:, 1:2].clamp(min=1)
    return {
        name: torch.zeros_like(gate) if slope is None else slope / predictions_B1
        for (name, gate), slope in zip(gates.gates.items(), found, strict=True)
    }


def text_losses(inspector: Inspector, rows: Sequence[Ids], watcher: Watcher | None = None, size: int = 32) -> Tensor:
    """[texts]: the loss of each text, in nats a prediction."""
    found = []
    with torch.inference_mode():
        for start in range(0, len(rows), size):
            batch = inspector.reader.batch(rows[start : start + size], inspector.device)
            each = loss_of(inspector, batch, watcher).rows
            assert each is not None
            found.append((each[:, 0] / each[:, 1].clamp(min=1)).cpu())
    return torch.cat(found)


def head_means(inspector: Inspector, rows: Sequence[Ids]) -> dict[Head, Tensor]:
    """What each head gives in the mean over all queries of these texts."""
    means = HeadMeans()
    for row in rows:  # one by one, so that there is no padding
        text_losses(inspector, [row], means)
    return means.means()


def silenced(heads: Sequence[Head], counts: Mapping[str, int]) -> HeadGates:
    """Gates that let these heads give nothing; counts: how many heads each site has."""
    gates = {name: torch.ones(1, counts[name]) for name in {site for site, _ in heads}}
    for name, head in heads:
        gates[name][0, head] = 0.0
    return HeadGates(gates)
