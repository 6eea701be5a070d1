"""`kit schema --write` onto a full disk: the file that was there stays."""

from __future__ import annotations

import os
from pathlib import Path

from processes.full_disk import full_disk
from typer.testing import CliRunner

from kit import KitError
from kit.cli.main import app


def test_the_schema_that_was_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "recipe.schema.json"
    file.write_text("{}")
    with full_disk(1000):
        done = CliRunner().invoke(app, ["schema", "--write", str(file)])
    assert isinstance(done.exception, KitError) and f"cannot write {file}: " in str(done.exception)
    assert file.read_text() == "{}" and list(tmp_path.iterdir()) == [file]


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = CliRunner().invoke(app, ["schema", "--write", str(pipe)])
    assert isinstance(done.exception, KitError) and f"{pipe} is not a file" in str(done.exception)
    assert pipe.is_fifo()
