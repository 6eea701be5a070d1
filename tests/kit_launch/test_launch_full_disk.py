"""`kit launch -o` onto a full disk: the script that was there stays."""

from __future__ import annotations

import os
from pathlib import Path

from processes.full_disk import full_disk
from runs.tiny_runs import PAIRS
from typer.testing import CliRunner

from kit import KitError
from kit.cli.main import app


def test_the_script_that_was_there_stays(tmp_path: Path) -> None:
    recipe, script = tmp_path / "tiny.yaml", tmp_path / "tiny.sbatch"
    recipe.write_text(PAIRS)
    arguments = ["launch", str(recipe), "--slurm", "--output", str(script)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    before = script.read_text()
    assert before.startswith("#!/bin/bash") and script.stat().st_mode & 0o111 == 0o111
    with full_disk(100):
        done = CliRunner().invoke(app, [*arguments, "--nodes", "7"])
    assert isinstance(done.exception, KitError) and f"cannot write {script}: " in str(done.exception)
    assert script.read_text() == before and sorted(tmp_path.iterdir()) == [script, recipe]


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    recipe, pipe = tmp_path / "tiny.yaml", tmp_path / "pipe"
    recipe.write_text(PAIRS)
    os.mkfifo(pipe)
    done = CliRunner().invoke(app, ["launch", str(recipe), "--slurm", "-o", str(pipe)])
    assert isinstance(done.exception, KitError) and f"{pipe} is not a file" in str(done.exception)
    assert pipe.is_fifo()
