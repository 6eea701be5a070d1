"""Processes that share each layer: the loss curve of one process, checkpoints that any number can load."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import tensor_parallel_program
from processes.training_processes import Place, farthest, free_port, losses

from kit.distributed.rank_info import RankInfo
from kit.files.tensors import read_tensors

pytestmark = pytest.mark.xdist_group("many")
CLOSE = 1e-4


def column(run: Path, name: str) -> list[str]:
    return [row.split()[1] for row in losses(run, name)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What two processes made one after another; `tensor_parallel_program` lists them."""
    place = Place(tmp_path_factory.mktemp("divided") / "place")
    program = [sys.executable, tensor_parallel_program.__file__, *(str(free_port()) for _ in range(4))]
    members = [RankInfo(rank, 2, rank, 2, "127.0.0.1", 1) for rank in (0, 1)]
    ends = [command.end() for command in [place.start(program=program, **it.environment()) for it in members]]
    assert [code for code, _ in ends] == [0, 0], ends
    yield place.folder
    for command in place.commands:
        command.kill_all()


def test_two_that_share_each_layer(runs: Path, alone: Path):
    run = runs / "shared"
    assert len(losses(run)) == 50
    assert farthest(losses(run), losses(alone)) < CLOSE
    assert farthest(column(run, "gradient_norm"), column(alone, "gradient_norm")) < CLOSE
    assert column(run, "tokens") == column(alone, "tokens")
    whole, together = read_tensors(alone / "weights.safetensors"), read_tensors(run / "weights.safetensors")
    assert {name: value.shape for name, value in whole.items()} == {name: it.shape for name, it in together.items()}
    held = [(run / "checkpoints" / "step-00000050" / f"rank-{rank}.safetensors").stat().st_size for rank in (0, 1)]
    assert held[1] < held[0] / 4  # what both have is written once


def test_one_goes_on_and_two_after_it(runs: Path, alone: Path):
    """Two that share each layer are stopped, one goes on and is stopped, and two that share go on to the end."""
    assert len(losses(runs / "stopped")) == 50
    assert farthest(losses(runs / "stopped"), losses(alone)) < CLOSE
    assert column(runs / "stopped", "tokens") == column(alone, "tokens")


def test_parts_that_stay_whole_learn_the_same_beside_others(runs: Path):
    assert farthest(losses(runs / "mixed-shared"), losses(runs / "mixed-alone")) < CLOSE
    one, two = (read_tensors(runs / f"mixed-{name}" / "weights.safetensors") for name in ("alone", "shared"))
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < CLOSE


@pytest.mark.slow
def test_two_processes_that_share_each_layer_from_the_command_line(place: Place, alone: Path):
    run = place.run("train", "tiny.yaml", *tensor_parallel_program.SHARED)
    assert farthest(losses(run), losses(alone)) < CLOSE


@pytest.mark.slow
def test_four_processes_share_each_layer_in_pairs_and_batches_between_them(place: Place, alone: Path):
    size = ("training.devices=4", "training.strategy=fsdp", "training.tensor_parallel=2")
    run = place.run("train", "tiny.yaml", *size)
    assert farthest(losses(run), losses(alone)) < CLOSE
    assert column(run, "tokens") == column(alone, "tokens")


@pytest.mark.slow
def test_not_finite_in_one_share_stops_all(place: Place):
    code, text = place.start("train", "tiny.yaml", *tensor_parallel_program.SHARED, TROUBLE="nan:1:4").end()
    assert code == 5, text
    assert text.count("step 4 is not finite") == 1
    assert len(losses(place.newest())) == 3
