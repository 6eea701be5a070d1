"""`kit plugin new` onto a full disk leaves no half of a package behind."""

from __future__ import annotations

from pathlib import Path

from processes.full_disk import full_disk
from typer.testing import CliRunner

from kit import KitError
from kit.cli.main import app


def new(folder: Path) -> object:
    with full_disk(300):
        done = CliRunner().invoke(app, ["plugin", "new", "trial", "--kind", "norm", "--in", str(folder)])
    return done.exception


def test_folders_that_were_made_for_it_are_removed(tmp_path: Path) -> None:
    error = new(tmp_path / "some" / "where")
    assert isinstance(error, KitError) and "kit-trial cannot be written: File too large" in str(error)
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_that_was_there_stays_empty(tmp_path: Path) -> None:
    made, other = tmp_path / "kit-trial", tmp_path / "other"
    made.mkdir()
    other.touch()
    assert isinstance(new(tmp_path), KitError)
    assert sorted(tmp_path.iterdir()) == [made, other] and not list(made.iterdir())


def test_a_file_where_a_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = new(tmp_path / "file")
    assert isinstance(error, KitError) and "Not a directory" in str(error)
    assert (tmp_path / "file").is_file()
