"""Half precision: learning, clipping, resuming, and naming the layer whose numbers are too large for it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from pytorch_lightning.plugins.precision import MixedPrecision

from kit.checkpoints.store import CheckpointStore
from kit.runs.lock import Lock
from kit.runs.metrics_file import MetricsFile
from kit.training import lightning_trainer
from kit.training import train as engine
from kit.training.nan_check import NonFiniteLoss
from kit.training.progress import SilentReporter
from kit.training.train import new_run, train

BIG, GROWS_AFTER = 2.0**10, 3


@pytest.fixture
def float16(monkeypatch: pytest.MonkeyPatch) -> str:
    """float16 on a CPU, where Lightning would take bfloat16 by itself."""
    known = lightning_trainer._strategy_options

    def options(training, rank_info):
        found = known(training, rank_info)
        if training.precision != "float16":
            return found
        scaler = torch.amp.GradScaler("cpu", init_scale=BIG, growth_interval=GROWS_AFTER)
        return {**found, "plugins": [*found["plugins"], MixedPrecision("16-mixed", "cpu", scaler)]}

    monkeypatch.setattr(lightning_trainer, "_strategy_options", options)
    monkeypatch.setitem(lightning_trainer._PRECISIONS, "float16", None)
    return "training.precision=float16"


class StopAfter(SilentReporter):
    """A scheduler that wants its machine back after a step."""

    def __init__(self, step: int) -> None:
        self.last = step

    def step(self, step, figures):
        if step == self.last:
            os.kill(os.getpid(), signal.SIGTERM)


def figures(run, *names: str) -> torch.Tensor:
    return torch.tensor([[float(row[name]) for name in names] for row in MetricsFile(run.metrics).rows()])


def test_bfloat16_learns_nearly_what_float32_does(tiny, kit):
    full, half = (train(tiny("model.dropout=0", f"training.precision={it}"), kit).run for it in ("float32", "bfloat16"))
    difference = (figures(full, "loss") - figures(half, "loss")).abs().max()
    assert 1e-6 < difference < 0.05


@pytest.mark.parametrize("fused", ["true", "false"])
def test_gradients_are_clipped_as_they_are_and_not_as_they_are_scaled(tiny, kit, float16: str, fused: str):
    same = [
        "model.dropout=0",
        "training.clip_grad_norm=0.1",
        "training.optimizer.use=adamw",
        f"training.optimizer.fused={fused}",
    ]
    same += ["training.optimizer.epsilon=1.0"]  # with which a gradient that is too short makes a short update
    full, half = train(tiny(*same), kit).run, train(tiny(*same, float16), kit).run
    torch.testing.assert_close(
        figures(half, "loss", "gradient_norm"), figures(full, "loss", "gradient_norm"), rtol=0.02, atol=0
    )


def test_a_run_in_float16_goes_on_with_its_scale(tiny, kit, tmp_path: Path, float16: str):
    recipe = tiny(float16)
    whole = train(recipe, kit, root=tmp_path / "whole").run
    run = new_run(recipe, kit, root=tmp_path / "parts")
    train(recipe, kit, run, reporter=StopAfter(4))
    store = CheckpointStore(run.checkpoints, Lock.read(run.lock).run)
    assert store.load(5).training["precision"]["scale"] == 2 * BIG
    train(recipe, kit, run)
    assert store.load(10).training["precision"]["scale"] == 8 * BIG
    assert torch.equal(figures(run, "loss", "gradient_norm"), figures(whole, "loss", "gradient_norm"))
    assert run.weights.read_bytes() == whole.weights.read_bytes()


def test_a_layer_that_overflows_in_float16_alone_is_named(tiny, kit, float16: str, monkeypatch: pytest.MonkeyPatch):
    def enlarge(model: torch.nn.Module) -> None:
        """Finite in float32, and too large for float16."""
        with torch.no_grad():
            model.get_parameter("decoder.stack.layers.0.feedforward.up.weight").sign_().mul_(6e4)

    monkeypatch.setattr(engine, "init_pretrained", enlarge)
    with pytest.raises(NonFiniteLoss, match=r"decoder\.stack\.layers\.0\.feedforward\.\w+, a Linear"):
        train(tiny(float16), kit)
