"""A recipe leads to no file outside its folder and the current one, unless the person says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kit import DataError, Kit, RecipeError, find_file
from kit.cli.main import app
from kit.files.path_sandbox import ALLOW, sandboxed

ROOT = Path(__file__).parents[2]
MODEL = """
name: base
model:
  family: decoder
  width: 8
  vocabulary: 11
  norm: layer
  decoder: {depth: 1, attention: softmax, feedforward: relu, residual: pre, masks: [causal]}
"""
KIT = Kit()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recipe in `given`, something it should not reach in `private`, and a person who is somewhere else."""
    for name in ("given", "private", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "private" / "base.yaml").write_text(MODEL)
    (tmp_path / "private" / "diary.txt").write_text("dear diary\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delenv(ALLOW, raising=False)
    return tmp_path


def recipe(folders: Path, extends: str) -> Path:
    path = folders / "given" / "recipe.yaml"
    path.write_text(f"extends: {extends}\nname: own\n")
    return path


@pytest.mark.parametrize("way", ["../private/base.yaml", "absolute", "link.yaml", "sub/../../private/base.yaml"])
def test_extends_stays_in_the_folder(folders: Path, way: str) -> None:
    (folders / "given" / "sub").mkdir()
    (folders / "given" / "link.yaml").symlink_to(folders / "private" / "base.yaml")
    path = recipe(folders, str(folders / "private" / "base.yaml") if way == "absolute" else way)
    with pytest.raises(RecipeError) as caught:
        KIT.recipe(path)
    (problem,) = caught.value.problems
    assert "lies outside" in problem.message and str(folders / "given") in problem.message
    assert problem.line == 1 and "--allow-outside" in str(problem.hint)
    assert "decoder" not in str(caught.value), "what the other file holds is not told"


def test_below_its_folder_and_below_the_current_one_is_within(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folders / "given" / "parts").mkdir()
    (folders / "given" / "parts" / "base.yaml").write_text(MODEL)
    assert KIT.recipe(recipe(folders, "parts/base.yaml")).name == "own"
    monkeypatch.chdir(folders)
    assert KIT.recipe(recipe(folders, "../private/base.yaml")).name == "own"


def test_a_chain_stays_in_the_folder_of_the_first(folders: Path) -> None:
    (folders / "given" / "parts").mkdir()
    (folders / "given" / "parts" / "next.yaml").write_text("extends: ../beside.yaml\n")
    (folders / "given" / "beside.yaml").write_text("extends: ../private/base.yaml\n")
    with pytest.raises(RecipeError, match="lies outside"):
        KIT.recipe(recipe(folders, "parts/next.yaml"))
    (folders / "given" / "beside.yaml").write_text(MODEL)
    assert KIT.recipe(recipe(folders, "parts/next.yaml")).name == "own"


@pytest.mark.parametrize("how", ["everything", "folder", "project"])
def test_the_person_can_say_so(folders: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    path = recipe(folders, "../private/base.yaml")
    if how == "project":
        Path("pyproject.toml").write_text('[tool.kit]\npaths = ["../private"]\n')
    else:
        monkeypatch.setenv(ALLOW, "1" if how == "everything" else str(folders / "private"))
    assert KIT.recipe(path).name == "own"


def test_a_recipe_cannot_say_so_itself(folders: Path) -> None:
    """The setting of the project that the person is in counts, not one that comes along with the recipe."""
    (folders / "given" / "pyproject.toml").write_text('[tool.kit]\npaths = ["../private"]\n')
    with pytest.raises(RecipeError, match="lies outside"):
        KIT.recipe(recipe(folders, "../private/base.yaml"))


def test_the_option_of_the_command_line(folders: Path) -> None:
    path = str(recipe(folders, "../private/base.yaml"))
    refused = CliRunner().invoke(app, ["check", path])
    assert refused.exit_code == 2
    allowed = CliRunner().invoke(app, ["--allow-outside", "check", path])
    assert allowed.exit_code == 0, allowed.output
    assert CliRunner().invoke(app, ["check", path]).exit_code == 2, "it was said for one command"


@pytest.mark.parametrize(
    "name", ["../private/diary.txt", "absolute", "~/diary.txt", "$HOME/diary.txt", "${X:-~}/diary.txt"]
)
def test_data_stays_in_the_folder_on_the_command_line(
    folders: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HOME", str(folders / "private"))
    wanted = str(folders / "private" / "diary.txt") if name == "absolute" else name
    assert find_file(wanted, folders / "given").name == "diary.txt", "in Python, code says what it wants"
    with sandboxed(), pytest.raises(DataError, match=r"outside the recipe's folder[\s\S]*--allow-outside"):
        find_file(wanted, folders / "given")
    with sandboxed(outside=True):
        assert find_file(wanted, folders / "given").name == "diary.txt"
    with sandboxed(), pytest.raises(DataError):
        find_file(wanted, folders / "given")


def test_data_that_the_person_points_at(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "${KIT_DATA:-../private}/diary.txt"
    (folders / "other").mkdir()
    (folders / "other" / "letter.txt").write_text("dear\n")
    with sandboxed():
        with pytest.raises(DataError, match="outside"):
            find_file(name, folders / "given")
        monkeypatch.setenv("KIT_DATA", str(folders / "private"))
        assert find_file(name, folders / "given").name == "diary.txt"
        with pytest.raises(DataError, match="outside"):
            find_file("$KIT_DATA/../other/letter.txt", folders / "given")
        assert find_file("diary.txt", folders / "private")


def test_the_recipes_that_ship_are_within_reach_of_this_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the setting in pyproject.toml, for the data that lies beside the project."""
    from kit.files.path_sandbox import is_path_allowed

    monkeypatch.chdir(ROOT)
    monkeypatch.delenv(ALLOW, raising=False)
    assert is_path_allowed(ROOT / "recipes" / "../../shared/data/x.txt", [ROOT / "recipes"])
    assert not is_path_allowed(ROOT / "../shared/other.txt", [ROOT / "recipes"])
