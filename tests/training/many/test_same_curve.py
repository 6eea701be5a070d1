"""However a recipe is started and shared out, it learns the same: the loss curve of one process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from processes.training_processes import Place, farthest, free_port, losses

from kit.files.tensors import read_tensors
from kit.runs.metrics_file import MetricsFile

pytestmark = pytest.mark.xdist_group("many")
STEPS, CLOSE = 50, 1e-4
ROUNDED = 2e-2
"""What bfloat16 leaves open, which has three digits: other pieces of a batch are rounded otherwise."""


def test_two_processes_with_the_whole_model_each(alone: Path, ddp: Path):
    assert len(losses(alone)) == STEPS
    assert farthest(losses(alone), losses(ddp)) < CLOSE


def test_two_processes_with_half_of_the_model_each(alone: Path, fsdp: Path):
    assert farthest(losses(alone), losses(fsdp)) < CLOSE
    pieces = sorted(path.name for path in (fsdp / "checkpoints" / "step-00000050").glob("rank-*.safetensors"))
    assert pieces == ["rank-0.safetensors", "rank-1.safetensors"]
    whole, together = read_tensors(alone / "weights.safetensors"), read_tensors(fsdp / "weights.safetensors")
    assert {name: value.shape for name, value in whole.items()} == {name: it.shape for name, it in together.items()}
    held = sum(path.stat().st_size for path in (fsdp / "checkpoints" / "step-00000050").glob("rank-0.safetensors"))
    assert held < 0.7 * 3 * 4 * sum(value.numel() for value in whole.values()) + 20_000  # weights and two moments


def test_torchrun_starts_the_same(place: Place, ddp: Path):
    program = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    program += ["--master-port", str(free_port()), "-m", "kit"]
    code, text = place.start("train", "tiny.yaml", program=program).end()
    assert code == 0, text
    assert losses(place.newest()) == losses(ddp)
    assert len(list(place.newest().parent.iterdir())) == 1
    assert text.count("trained 50 steps") == 1
    assert "find_unused_parameters" not in text, "torch warns that no parameter was left out, as one hopes"


def test_torchrun_on_two_nodes_with_half_of_the_model_each(place: Place, fsdp: Path):
    port = str(free_port())
    nodes = []
    for rank in ("0", "1"):
        program = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
        program += ["--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port", port, "-m", "kit"]
        nodes.append(place.start("train", "tiny.yaml", "training.strategy=fsdp", program=program))
    ends = [node.end() for node in nodes]
    assert [code for code, _ in ends] == [0, 0], ends
    assert losses(place.newest()) == losses(fsdp)


def test_half_of_the_model_each_with_all_else_that_changes_a_step(place: Place):
    """In half precision, in pieces, and averaged."""
    changes = ["training.precision=bfloat16", "training.accumulate_steps=2", "training.average={ema: 0.9}"]
    changes += ["training.steps=10", "training.validate_every=5"]
    alone = place.run("train", "tiny.yaml", *changes)
    spread = place.run("train", "tiny.yaml", *changes, "training.devices=2", "training.strategy=fsdp")
    for column in ("loss", "validation_loss"):
        one, other = ([row[column] for row in MetricsFile(it / "metrics.csv").rows()] for it in (alone, spread))
        assert farthest([it for it in one if it], [it for it in other if it]) < ROUNDED
    kept = {name: value for name, value in read_tensors(alone / "weights.safetensors").items() if value.dim() == 2}
    for name, value in read_tensors(spread / "weights.safetensors").items():
        if name in kept:
            assert (value - kept[name]).norm() < 0.1 * value.norm()


def test_two_nodes_of_one_process_each(place: Place, ddp: Path):
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    nodes = [place.start("train", "tiny.yaml", "training.nodes=2", **meet, NODE_RANK=str(rank)) for rank in (0, 1)]
    ends = [node.end() for node in nodes]
    assert [code for code, _ in ends] == [0, 0], ends
    assert losses(place.newest()) == losses(ddp)
    assert len(list(place.newest().parent.iterdir())) == 1
    assert "trained 50 steps" in ends[0][1]
    assert ends[1][1] == ""


def test_the_script_for_slurm_works_as_it_is(place: Place, ddp: Path):
    """With stand-ins for srun and scontrol that do what those do, on this machine."""
    tools = place.folder / "bin"
    tools.mkdir()
    srun = [
        "#!/bin/bash",
        'shift; [ "$SLURM_NTASKS" = 2 ] || exit 9',
        "export SLURM_STEP_ID=0",
        'SLURM_PROCID=0 SLURM_LOCALID=0 "$@" & first=$!',
        'SLURM_PROCID=1 SLURM_LOCALID=0 "$@" & second=$!',
        "wait $first && wait $second",
    ]
    (tools / "srun").write_text("\n".join(srun) + "\n")
    (tools / "scontrol").write_text('#!/bin/bash\n[ "$1 $2" = "show hostnames" ] && echo 127.0.0.1 && echo other\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    code, text = place.start("launch", "tiny.yaml", "--slurm", "--nodes", "2", "--time", "10").end()
    assert code == 0 and "sbatch tiny.sbatch" in text
    given = {"SLURM_JOB_ID": str(free_port()), "SLURM_NTASKS": "2", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n[1-2]"}
    given["PATH"] = f"{tools}:{os.environ['PATH']}"
    code, text = place.start(program=["bash", "tiny.sbatch"], **given).end()
    assert code == 0, text
    assert losses(place.newest()) == losses(ddp)
    assert text.count("trained 50 steps") == 1
