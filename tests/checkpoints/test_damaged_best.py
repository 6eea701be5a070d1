"""A damaged checkpoint does not keep a run from ending or from being opened: the next good one is used, and named."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from models.tiny_models import KIT
from runs import tiny_runs

from kit import load_run
from kit.checkpoints.manifest import NAME, read_manifest, write_manifest
from kit.checkpoints.store import CheckpointStore, Retention
from kit.files.atomic import CheckpointError, DamagedCheckpointWarning
from kit.runs.lock import Lock
from kit.runs.run_directory import RunDirectory
from kit.training.preparation import prepare_training
from kit.training.train import final_weights

from .samples import any_store, is_complete, state

SMALL = ["training.steps=4", "training.checkpoint_every=1", "training.keep_checkpoints=9", "data.train=40"]
Damage = Callable[[Path], None]


def scored(folder: Path) -> CheckpointStore:
    """Steps 1 to 4, of which 2 is the best and 3 the second best; 1 and 4 have no score."""
    store = any_store(folder, run="a run", retention=Retention(last=4))
    for step, score in enumerate([None, 0.1, 0.2, None], start=1):
        store.save(step, state(step), score)
    return store


def flip(path: Path) -> None:
    data = bytearray((path / "weights.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "weights.safetensors").write_bytes(data)


def break_manifest(path: Path) -> None:
    os.truncate(path / NAME, 20)


def of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


@pytest.mark.parametrize("damage", [flip, break_manifest])
def test_the_second_best_is_used_then_the_newest(tmp_path: Path, damage: Damage) -> None:
    store = scored(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.load_best().step == 2
    damage(of(tmp_path, 2))
    with pytest.warns(
        DamagedCheckpointWarning, match=r"^step-00000002 is damaged: .*\. Taking step-00000003, which is"
    ):
        assert is_complete(store.load_best())
    damage(of(tmp_path, 3))
    with pytest.warns(DamagedCheckpointWarning, match="step-00000003 is damaged"):
        assert store.load_best().step == 4
    for step in (1, 4):
        damage(of(tmp_path, step))
    with pytest.raises(CheckpointError, match=r"no checkpoint .* can be used: .*step-00000001 is damaged"):
        store.load_best()


def test_without_scores_the_best_is_the_newest(tmp_path: Path) -> None:
    store = any_store(tmp_path)
    for step in (1, 2):
        store.save(step, state(step))
    assert store.load_best().step == 2


@pytest.mark.parametrize("damage", [flip, break_manifest])
def test_those_that_are_intact_can_be_asked_for(tmp_path: Path, damage: Damage) -> None:
    store = scored(tmp_path)
    assert store.intact() is store
    damage(of(tmp_path, 3))
    with pytest.warns(DamagedCheckpointWarning, match=r"step-00000003 is damaged: .* of the steps 1, 2, 4"):
        kept = store.intact()
    assert kept.steps() == [1, 2, 4] and store.steps() == [1, 2, 3, 4]
    for step in (1, 2, 4):
        damage(of(tmp_path, step))
    with pytest.raises(CheckpointError, match="can be used: step-00000001 is damaged"):
        store.intact()


def give_score(run: RunDirectory, step: int, score: float) -> None:
    folder = of(run.checkpoints, step)
    found = read_manifest(folder)
    (folder / NAME).unlink()
    write_manifest(folder, step=step, sequence=found.sequence, score=score, world=found.world, run=found.run)


def store_of(run: RunDirectory) -> CheckpointStore:
    return CheckpointStore(run.checkpoints, Lock.read(run.lock).run)


def test_a_run_ends_and_opens_with_the_next_best(tmp_path: Path) -> None:
    run = tiny_runs.trained(tiny_runs.PAIRS, tmp_path, *SMALL)
    for step, score in enumerate([0.4, 0.1, 0.2, 0.3], start=1):
        give_score(run, step, score)
    wanted = store_of(run).load(3).weights
    flip(of(run.checkpoints, 2))
    with tiny_runs.alone(tmp_path):
        prepared = prepare_training(KIT.recipe(run.recipe), KIT, saved_tokenizer=run.tokenizer)
        with pytest.warns(DamagedCheckpointWarning, match="Taking step-00000003"):
            kept = final_weights(prepared, store_of(run), 4)
    assert all(torch.equal(value, wanted[name]) for name, value in kept.items())
    run.weights.unlink()
    with pytest.warns(DamagedCheckpointWarning, match="Taking step-00000003"):
        opened = load_run(run, KIT)
    assert all(torch.equal(value, wanted[name]) for name, value in opened.model.state_dict().items())


def test_the_mean_of_the_last_passes_over_a_damaged_one(tmp_path: Path) -> None:
    run = tiny_runs.trained(tiny_runs.PAIRS, tmp_path, *SMALL, "training.average={last: 2}")
    wanted = [store_of(run).load(step).weights for step in (2, 4)]
    flip(of(run.checkpoints, 3))
    with tiny_runs.alone(tmp_path):
        prepared = prepare_training(KIT.recipe(run.recipe), KIT, saved_tokenizer=run.tokenizer)
        with pytest.warns(DamagedCheckpointWarning, match="step-00000003 is damaged"):
            kept = final_weights(prepared, store_of(run), 4)
    for name, value in kept.items():
        assert torch.allclose(value, (wanted[0][name] + wanted[1][name]) / 2, atol=1e-7)


def test_where_all_regular_ones_are_damaged_the_mean_is_of_the_rest(tmp_path: Path) -> None:
    changes = ["training.average={last: 2}", "training.checkpoint_every=2", "training.validate_every=1"]
    run = tiny_runs.trained(tiny_runs.PAIRS, tmp_path, *SMALL, *changes)
    rest = [step for step in store_of(run).steps() if step % 2]
    wanted = [store_of(run).load(step).weights for step in rest]
    for step in (2, 4):
        flip(of(run.checkpoints, step))
    with tiny_runs.alone(tmp_path):
        prepared = prepare_training(KIT.recipe(run.recipe), KIT, saved_tokenizer=run.tokenizer)
        with pytest.warns(DamagedCheckpointWarning, match="step-00000004 is damaged"):
            kept = final_weights(prepared, store_of(run), 4)
    for name, value in kept.items():
        assert torch.allclose(value, sum(weights[name] for weights in wanted) / len(wanted), atol=1e-7)


def test_a_run_that_has_not_ended_opens_with_the_best_also_where_more_is_better(tmp_path: Path) -> None:
    run = tiny_runs.trained(tiny_runs.PAIRS, tmp_path, *SMALL, "training.metric=exact")
    for step, score in enumerate([0.4, 0.1, 0.9, 0.3], start=1):
        give_score(run, step, score)
    wanted = store_of(run).load(3).weights
    run.weights.unlink()
    assert all(torch.equal(value, wanted[name]) for name, value in load_run(run, KIT).model.state_dict().items())
