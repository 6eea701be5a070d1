"""Runs whose JSON was forged, with manifests that fit: a line that names file and field, or the run goes on."""

from __future__ import annotations

import json
import re
import shutil
import struct
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from models.tiny_models import KIT
from runs import tiny_runs
from runs.forged_runs import REMOVED, forge, newest_checkpoint, remake_manifest, within

from kit import Kit, KitError, RunDirectory, inspect, load, load_run
from kit.checkpoints.manifest import Shard, assemble
from kit.files.atomic import DamagedCheckpoint, DamagedCheckpointWarning
from kit.files.tensors import read_tensors, replace_tensors
from kit.runs.metrics_file import list_runs
from kit.training.train import train

SMALL = ["training.steps=2", "training.checkpoint_every=1", "data.train=40", "training.average={ema: 0.9}"]
MOMENTS = ["optimizer", "state", "$dict", 0, 1]
FORGED = [
    ("manifest.json", ["score"], [1], "manifest.json: score"),
    ("manifest.json", ["score"], "0.5", "manifest.json: score"),
    ("manifest.json", ["score"], True, "manifest.json: score"),
    ("manifest.json", ["score"], float("nan"), "manifest.json: score"),
    ("manifest.json", ["sequence"], "a", "manifest.json: sequence"),
    ("manifest.json", ["sequence"], 1.5, "manifest.json: sequence"),
    ("manifest.json", ["sequence"], -1, "manifest.json: sequence"),
    ("manifest.json", ["world"], "2", "manifest.json: world"),
    ("manifest.json", ["world"], 1.5, "manifest.json: world"),
    ("manifest.json", ["world"], 0, "manifest.json: world"),
    ("manifest.json", ["world"], 10**12, "manifest.json: world"),
    ("manifest.json", ["step"], "2", "manifest.json: step"),
    ("manifest.json", ["step"], 7, "the checkpoint of step 7"),
    ("manifest.json", ["run"], 5, "manifest.json: run"),
    ("manifest.json", ["parts"], [], "manifest.json: parts"),
    ("manifest.json", ["parts", "../../lock.json"], [1, "x"], "manifest.json: parts"),
    ("manifest.json", ["parts", "a\0b"], [1, "x"], r"manifest.json: 'parts.a\\x00b"),
    ("manifest.json", ["parts", "training.json"], [1], "manifest.json: parts.training.json"),
    ("manifest.json", ["more"], 1, "manifest.json: more"),
    ("manifest.json", [], [1], "manifest.json"),
    ("training.json", [], [1], "training.json"),
    ("training.json", ["step"], "2", "training.json: step"),
    ("training.json", ["early_stopping"], REMOVED, "training.json: early_stopping"),
    ("training.json", ["early_stopping", "waited"], "1", "training.json: early_stopping.waited"),
    ("training.json", ["early_stopping", "best"], [1], "training.json: early_stopping.best"),
    ("training.json", ["pending_validation"], {"loss": "a"}, "training.json: pending_validation.loss"),
    ("training.json", ["precision"], {"scale": "a"}, "training.json: precision.scale"),
    ("training.json", ["tensor_parallel"], 0, "training.json: tensor_parallel"),
    ("training.json", ["optimizer", "state"], 5, "training.json.*optimizer/state"),
    ("training.json", ["optimizer", "state", "$dict", 0, 0], "a", "training.json: optimizer.state.a"),
    ("training.json", ["optimizer", "state", "$dict", 0, 0], 1, "a key twice"),
    ("training.json", ["optimizer", "state", "$dict", 0, 0], 9999, "training.json: optimizer"),
    ("training.json", ["optimizer", "param_groups", 0, "betas"], "x", "training.json: optimizer"),
    ("training.json", ["optimizer", "param_groups", 0, "params", 0], 1, "training.json: optimizer"),
    ("training.json", ["optimizer", "param_groups", 0, "params"], REMOVED, "training.json: optimizer"),
    ("training.json", [*MOMENTS, "exp_avg"], 5, "exp_avg"),
    ("training.json", [*MOMENTS, "exp_avg", "$tensor"], "optimizer/state/1/exp_avg", "exp_avg"),
    ("training.json", [*MOMENTS, "step"], 10**400, "step"),
    ("training.json", [*MOMENTS, "more"], 5, None),
    ("rank-0.json", [], [1], "rank-0.json"),
    ("rank-0.json", ["own"], REMOVED, "rank-0.json"),
    ("rank-0.json", ["own"], 5, "rank-0.json"),
    ("rank-0.json", ["own", "torch"], [1], "rank-0.json"),
    ("rank-0.json", ["own", "numpy", 0], "PCG64", "rank-0.json: own: numpy.0"),
    ("rank-0.json", ["own", "numpy", 2], 1e9, "rank-0.json: own: numpy.2"),
    ("rank-0.json", ["own", "python", "$tuple", 1, "$tuple", 0], "a", "rank-0.json: own: python.1.0"),
    ("rank-0.json", ["own", "python", "$tuple", 1, "$tuple", 0], REMOVED, "rank-0.json: own"),
    ("rank-0.json", ["own", "python", "$tuple", 1, "$tuple", 0], 10**30, "rank-0.json: own"),
    ("rank-0.json", ["shards"], {"weights/a": [["x"], [0]]}, "rank-0.json"),
    ("rank-0.json", ["shards"], 5, "rank-0.json"),
    ("lock.json", ["seed"], "0", "lock.json.*seed"),
    ("lock.json", ["kit"], 5, "lock.json.*kit"),
    ("lock.json", [], [[]], "lock.json"),
    ("lock.json", ["run"], "another", "another run"),
    ("origin.json", ["folder"], 5, "origin.json: folder"),
    ("origin.json", [], [1], "origin.json"),
    ("origin.json", ["folder"], "/" + "a" * 5000, None),
    ("origin.json", ["folder"], "a\0b", None),
]
"""File, field, forged value, and what is said; None where it goes on without a word."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run with two checkpoints and without final weights, so that they are read from a checkpoint."""
    run = tiny_runs.trained(tiny_runs.PAIRS, tmp_path_factory.mktemp("forged"), *SMALL)
    run.weights.unlink()
    run.weights_digest.unlink()
    return run


@pytest.fixture
def run(made: RunDirectory, tmp_path: Path) -> RunDirectory:
    return RunDirectory(shutil.copytree(made.path, tmp_path / "runs" / "pairs" / "1"))


def said_by(act) -> str:
    """The error and the warnings of an act that ends; anything but a KitError is a failure."""
    with warnings.catch_warnings(record=True) as caught, within(30):
        warnings.simplefilter("always")
        try:
            act()
        except KitError as error:
            caught_error = str(error)
        else:
            caught_error = ""
    damage = [str(it.message) for it in caught if issubclass(it.category, DamagedCheckpointWarning)]
    return "\n".join([caught_error, *damage]).strip()


def resume(run: RunDirectory) -> None:
    with tiny_runs.alone(run.path.parents[2]):
        tiny_runs.write_files(Path())
        train(KIT.recipe(run.recipe, ["training.steps=3", "training.validate_every=1000"]), KIT, run)


def inspect_run(path: str, kit: Kit) -> None:
    inspect(load_run(path, kit))


def names(case) -> str:
    return f"{case[0]} {'.'.join(map(str, case[1])) or 'all'} {str(case[2])[:12]}".replace("\0", "0")


@pytest.mark.parametrize(("file", "field", "value", "wanted"), FORGED, ids=map(names, FORGED))
def test_a_forged_value_is_named_when_a_run_goes_on(run: RunDirectory, file, field, value, wanted) -> None:
    forge(run, file, field, value)
    said = said_by(lambda: resume(run))
    assert said == "" if wanted is None else re.search(wanted, said), said


def test_a_moment_of_another_shape_does_not_reach_a_fused_optimizer(run: RunDirectory) -> None:
    checkpoint = newest_checkpoint(run)
    tensors = read_tensors(checkpoint / "training.safetensors")
    name = next(name for name, value in tensors.items() if "exp_avg" in name and value.dim() == 2)
    replace_tensors(checkpoint / "training.safetensors", {**tensors, name: torch.zeros(1)})
    remake_manifest(run, checkpoint)
    assert "has another shape" in said_by(lambda: resume(run))


@pytest.mark.parametrize("file", ["manifest.json", "training.json", "rank-0.json", "lock.json", "origin.json"])
def test_forged_values_are_named_when_a_run_is_opened(made: RunDirectory, tmp_path: Path, file: str) -> None:
    cases = [case for case in FORGED if case[0] == file]
    for number, case in enumerate(cases):
        run = RunDirectory(shutil.copytree(made.path, tmp_path / str(number)))
        forge(run, *case[:3])
        said = said_by(partial(load if number % 2 else inspect_run, str(run.path), KIT))
        # What belongs to the optimizer, or does not fit one, is noticed when training goes on.
        late = (file == "training.json" and case[1][:1] == ["optimizer"]) or file == "rank-0.json"
        assert late or (said == "" if case[3] is None else re.search(case[3], said)), f"{names(case)}: {said}"


def test_a_forged_run_is_listed(run: RunDirectory) -> None:
    run.weights.touch()
    with within(10):
        (run.checkpoints / "latest").write_text("step-" + "9" * 5000 + " x\n")
        assert [it.step for it in list_runs(run.path.parents[1])] == [None]
        forge(run, "training.json", ["early_stopping", "waited"], float("inf"))
        text = re.sub(r"\n *patience:.*", "", run.recipe.read_text())
        run.recipe.write_text(re.sub(r"( *)(steps: )2\b", r"\1\g<2>9\n\1patience: 1", text))
        assert [it.state for it in list_runs(run.path.parents[1])] == ["stopped"]


@pytest.mark.parametrize("names_of_tied", ["[" * 100_000, '{"a":' * 100_000, "[1]", '{"a": 5}', '{"a": "b"}'])
def test_a_nested_header_of_a_safetensors_file_is_damage(tmp_path: Path, names_of_tied: str) -> None:
    header = json.dumps({"__metadata__": {"tied": names_of_tied}}).encode()
    (tmp_path / "weights.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(KitError, match=r"weights\.safetensors cannot be read"):
        read_tensors(tmp_path / "weights.safetensors")


def test_a_piece_that_claims_a_huge_tensor_takes_no_memory() -> None:
    with within(10), pytest.raises(DamagedCheckpoint, match="hold 6 of its 1000000000000000 numbers"):
        assemble("a", [Shard(torch.ones(6), (10**15,), (0,))])
