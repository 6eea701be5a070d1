"""What the training loop costs over the bare step: Lightning, logging, the reading of batches, agreeing with others.

One training; before each of its steps a twin of the model takes the same step by hand on the same batch, so that both
see the same machine. The loop's time is everything from the end of one such bare step to the beginning of the next, the
next batch's reading included. The bar: 3 %.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
import torch
from rich.console import Console
from torch import nn

from kit import Batch, Kit, Objective, Recipe, hookimpl
from kit.contracts.optimizer import parameter_groups
from kit.recipe.parts import RecipeParts
from kit.training.module import TrainingModule
from kit.training.train import train

BAR = 1.03
RECIPES = Path(__file__).parents[1] / "recipes"


class BareStep:
    """A model, its objective and its optimizer, and nothing else."""

    def __init__(self, module: TrainingModule, recipe: Recipe, kit: Kit, model: nn.Module) -> None:
        self.model: Any = model
        self.objective: Objective = module.objective
        self.optimizer = RecipeParts(recipe, kit.registry).optimizer().build(parameter_groups(self.model))
        self.parameters = list(self.model.parameters())

    def __call__(self, batch: Batch) -> None:
        """Forward, backward, clip, update."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.objective.loss(self.model, batch)
        (loss.total * batch.token_scale).backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimizer.step()


class Alternating(lightning.Callback):
    """Takes a bare step before each step of the loop, and times both."""

    def __init__(self, recipe: Recipe, kit: Kit) -> None:
        self.recipe, self.kit = recipe, kit
        self.bare: list[float] = []
        self.loop: list[float] = []
        self._step: BareStep | None = None
        self._ended = 0.0

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """The loop's step before this one is over, and the next batch is here."""
        began = time.perf_counter()
        assert isinstance(pl_module, TrainingModule)
        if self._step is None:
            self._step = BareStep(pl_module, self.recipe, self.kit, copy.deepcopy(pl_module.model))
            began = time.perf_counter()
        else:
            self.loop.append(began - self._ended)
        self._step(batch)
        self._ended = time.perf_counter()
        self.bare.append(self._ended - began)


class Plugin:
    """Brings the callback."""

    kit_api = 1

    def __init__(self) -> None:
        self.kit: Kit | None = None
        self.callback: Alternating | None = None

    @hookimpl
    def kit_callbacks(self, recipe: Recipe) -> Iterable[lightning.Callback]:
        """One."""
        assert self.kit is not None
        self.callback = Alternating(recipe, self.kit)
        return [self.callback]


def measure(recipe: str, steps: int, out: Console) -> float:
    """Train for so many steps; print and return the ratio of the medians."""
    plugin = Plugin()
    kit = plugin.kit = Kit(plugins=[plugin])
    overrides = [f"training.steps={steps}", f"training.validate_every={10 * steps}", "training.metrics=[]"]
    overrides += [
        "training.metric=loss",
        "training.average=null",
        "training.schedule=constant",
        f"training.checkpoint_every={10 * steps}",
    ]
    found = kit.recipe(RECIPES / f"{recipe}.yaml", overrides)
    with tempfile.TemporaryDirectory() as folder:
        train(found, kit, folder=RECIPES, root=Path(folder))
    callback = plugin.callback
    assert callback is not None
    pairs = list(zip(callback.bare, callback.loop, strict=False))[5:]  # the first ones warm up
    ratio = statistics.median(loop / bare for bare, loop in pairs)
    bare, loop = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    verdict = "holds" if ratio <= BAR else "DOES NOT HOLD"
    out.print(
        f"{recipe}: bare step {1000 * bare:.1f} ms, in the loop {1000 * loop:.1f} ms over {len(pairs)} pairs; "
        f"median ratio {ratio:.3f} (bar {BAR}): {verdict}"
    )
    return ratio


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipes", nargs="*", default=["multi30k", "pronounce"])
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    os.environ.setdefault("KIT_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
    torch.set_num_threads(2)
    for recipe in arguments.recipes:
        measure(recipe, arguments.steps, Console(width=120))


if __name__ == "__main__":
    main()
