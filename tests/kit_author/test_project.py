"""`kit plugin new` writes a package that works as it is written, for every kind that has a contract."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from models.part_packages import COSTLY, importable

from kit import Kit, KitError, laws
from kit.kit import _contract_kinds
from kit_author.project import kinds, write_project

KIT = Kit()
KINDS = kinds()


def test_every_kind_that_has_a_contract_has_a_template() -> None:
    assert _contract_kinds() == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_works(kind: str, tmp_path: Path) -> None:
    """Found by the kit, right in its recipe, and keeps the laws that are quick to try."""
    made = write_project("trial", kind, tmp_path, KIT)
    with importable(made / "src", "kit_trial") as module:
        kit = Kit(plugins=[module])
        (component,) = module.kit_components()
        part = kit.registry.find(kind, "trial")
        assert part.component is component and component.__name__ == f"Trial{kind.capitalize()}"
        assert all(text for text in (component.__doc__, component.options_type.__doc__))
        assert len(component.options_type.model_fields) > 1, "an author sees how an option is written"
        recipe = kit.recipe(made / "recipes" / "trial.yaml")
        assert recipe.name == "trial"
        written = (made / "recipes" / "trial.yaml").read_text()
        assert written.count("trial") > 3 or kind in ("exporter", "measure", "probe")
        for law in laws.laws_of(kind):
            if law.name not in COSTLY and not law.slow:
                verdict = laws.try_law(law, component, kit, quick=True)
                assert verdict.outcome != "failed", f"{law.title}: {verdict.message}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_its_own_tests_pass(kind: str, tmp_path: Path) -> None:
    made = write_project("trial", kind, tmp_path, KIT)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_files_of_a_package(tmp_path: Path) -> None:
    made = write_project("kit-two_words", "norm", tmp_path, KIT)
    assert made == tmp_path / "kit-two-words"
    found = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    assert found == {
        ".github/workflows/tests.yml",
        ".gitignore",
        "README.md",
        "pyproject.toml",
        "recipes/two_words.yaml",
        "src/kit_two_words/__init__.py",
        "src/kit_two_words/py.typed",
        "src/kit_two_words/two_words.py",
        "tests/test_laws.py",
    }
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["kit.plugins"] == {"two_words": "kit_two_words"}
    workflow = yaml.safe_load((made / ".github/workflows/tests.yml").read_text())
    assert any("pytest" in str(step.get("run")) for step in workflow["jobs"]["tests"]["steps"])
    assert not any("<<" in path.read_text() for path in made.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("fading", "colour", "no package can be written for the kind 'colour'"),
        ("Fading", "norm", "cannot be called 'Fading'"),
        ("../escape", "norm", "cannot be called"),
        ("mask", "norm", "kit_mask is installed already"),
        ("layer", "norm", "brings a norm called 'layer' already"),
    ],
)
def test_what_cannot_be_written(name: str, kind: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(KitError, match=message):
        write_project(name, kind, tmp_path, KIT)
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path: Path) -> None:
    write_project("trial", "norm", tmp_path, KIT)
    with pytest.raises(KitError, match="not empty"):
        write_project("trial", "norm", tmp_path, KIT)
