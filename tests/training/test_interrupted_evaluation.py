"""Whoever is asked to stop while held-out examples are measured leaves in time, and measures first on going on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.checkpoints.store import CheckpointStore
from kit.generation.generator import SequenceGenerator
from kit.runs.lock import Lock
from kit.runs.metrics_file import MetricsFile
from kit.runs.run_directory import RunDirectory
from kit.training.train import new_run, train
from kit_metric.token_error import TokenErrorMetric

SAME = ("step", "loss", "gradient_norm", "validation_loss", "validation_token_error")

NO_PATIENCE = ("training.patience=2", "training.optimizer.learning_rate=1.0e-30")
"""Ends with the third measurement, since nothing gets better."""


def rows(run: RunDirectory) -> list[list[str]]:
    return [[row.get(name, "") for name in SAME] for row in MetricsFile(run.metrics).rows()]


def slow(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, call: int) -> None:
    """From that call on a function takes a minute, and a scheduler wants its machine back meanwhile."""
    known: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def slowly(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= call:
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
            time.sleep(60)
        return known(*given, **named)

    monkeypatch.setattr(owner, name, slowly)


@pytest.mark.parametrize(
    ("owner", "name", "call", "stopped", "changes"),
    [
        (TokenErrorMetric, "measure", 2, 8, []),
        (SequenceGenerator, "generate", 2, 4, ["training.average={ema: 0.9}"]),
        (TokenErrorMetric, "measure", 3, 10, []),
        (TokenErrorMetric, "measure", 3, 6, ["training.validate_every=2", *NO_PATIENCE]),
    ],
    ids=["metric", "writing", "last step", "patience"],
)
def test_a_signal_is_not_kept_waiting(
    tiny,
    kit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    call: int,
    stopped: int,
    changes: list[str],
):
    recipe = tiny(*changes)
    whole = train(recipe, kit, root=tmp_path / "whole")
    run = new_run(recipe, kit, root=tmp_path / "parts")
    with monkeypatch.context() as patched:
        slow(patched, owner, name, call)
        began = time.monotonic()
        first = train(recipe, kit, run)
        assert time.monotonic() - began < 30
    assert (first.ending, first.step, first.signal) == ("interrupted", stopped, signal.SIGTERM)
    assert len(rows(run)) == stopped and rows(run)[-1][3] == ""
    store = CheckpointStore(run.checkpoints, Lock.read(run.lock).run)
    assert store.load_latest().step == stopped and store.load_latest().manifest.score is None
    last = train(kit.recipe(run.recipe), kit, run)
    assert (last.ending, last.step) == (whole.ending, whole.step)
    assert rows(run) == rows(whole.run)
    assert run.weights.read_bytes() == whole.run.weights.read_bytes()
    assert store.best() == CheckpointStore(whole.run.checkpoints, Lock.read(whole.run.lock).run).best()


def test_a_signal_that_comes_again_while_that_is_measured(tiny, kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = train(tiny(), kit, root=tmp_path / "whole")
    run = new_run(tiny(), kit, root=tmp_path / "parts")
    for call in (2, 1):
        with monkeypatch.context() as patched:
            slow(patched, TokenErrorMetric, "measure", call)
            assert (train(tiny(), kit, run).ending, len(rows(run))) == ("interrupted", 8)
    assert train(tiny(), kit, run).ending == "finished"
    assert rows(run) == rows(whole.run)
