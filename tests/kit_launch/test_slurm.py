"""The batch script of `kit launch --slurm` asks for what the recipe needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs.tiny_runs import PAIRS
from typer.testing import CliRunner

from kit import Kit, KitError
from kit.cli.main import app
from kit_launch.slurm import SlurmJob


def training(*overrides: str) -> Any:
    return Kit().recipe(PAIRS, overrides).training


def test_a_script_asks_slurm_for_what_the_recipe_needs(tmp_path: Path):
    job = SlurmJob.of("tiny", training("training.devices=4", "training.nodes=2"), None, None)
    text = job.script(["kit", "train", "a recipe.yaml"], tmp_path)
    for line in ("--nodes=2", "--ntasks-per-node=4", "--gpus-per-node=4", "--signal=TERM@90"):
        assert f"#SBATCH {line}\n" in text
    assert text.endswith("exec srun --kill-on-bad-exit=1 kit train 'a recipe.yaml'\n")
    on_cpu = SlurmJob.of("tiny", training("training.accelerator=cpu"), 3, None).script(["kit"], tmp_path)
    assert "--nodes=3" in on_cpu and "gpus" not in on_cpu
    with pytest.raises(KitError, match="accelerator: cpu"):
        SlurmJob.of("tiny", training("training.accelerator=cpu"), 3, 2)


def test_launch_without_a_cluster_says_what_to_type(tmp_path: Path):
    done = CliRunner().invoke(app, ["launch", "tiny.yaml"])
    assert isinstance(done.exception, KitError) and "kit launch RECIPE --slurm" in str(done.exception)
