"""`kit plugin list`, `why` and `new`, and `kit check --locked` and `--no-third-party`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from session.compiled_kernels import cache_with_kernels
from typer.testing import CliRunner

from kit import DifferentRunWarning, Kit, KitError, PartNotFound, load_run
from kit.cli.main import app
from kit.laws import find_package
from kit.prediction.load_run import lock_differences
from kit.runs.lock import Lock
from kit.runs.run_directory import RunDirectory
from kit.training.train import train
from kit_author.origin import describe_origin

SAMPLE = Path(__file__).parents[1] / "third_party" / "kit-sample-distance"
RECIPE = """
name: tiny
model:
  family: decoder
  width: 8
  length: 16
  norm: layer
  decoder: {depth: 1, attention: {use: softmax, heads: 2}, feedforward: relu, residual: pre, masks: [nearby]}
data: {use: plain_text, train: text.txt}
tokenizer: characters
training: {steps: 2, batch_tokens: 40, validate_every: 2, checkpoint_every: 1}
"""
PYTHON = "from kit import hookimpl\nkit_api = {api}\n@hookimpl\ndef kit_components():\n    return []\n"


def installed(folder: Path, name: str, source: str, version: str = "1.0") -> None:
    """What an installer leaves behind."""
    (folder / f"kit_{name}.py").write_text(source)
    info = folder / f"kit_{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kit-{name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[kit.plugins]\n{name} = kit_{name}\n")


@pytest.fixture
def site_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder of installed packages: one of nearby masks, one that is broken, one that is too new."""
    folder = tmp_path / "site"
    folder.mkdir()
    installed(folder, "distance", (SAMPLE / "kit_sample_distance.py").read_text(), "0.2.1")
    installed(folder, "torn", "import nowhere_to_be_found\n")
    installed(folder, "tomorrow", PYTHON.format(api=2))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    yield folder
    for name in ("distance", "torn", "tomorrow"):
        sys.modules.pop(f"kit_{name}", None)


def kit_command(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_list_says_what_failed_and_why(site_packages: Path) -> None:
    found = {plugin["name"]: plugin for plugin in json.loads(kit_command("plugin", "list", "--json").stdout)}
    assert found["distance"]["parts"] == ["mask nearby", "position fading"]
    assert (found["distance"]["version"], found["distance"]["api"]) == ("0.2.1", 1)
    assert found["torn"]["status"] == "failed" and "nowhere_to_be_found" in found["torn"]["error"]
    assert found["tomorrow"]["api"] == 2 and "a newer kitformer is needed" in found["tomorrow"]["error"]
    table = kit_command("plugin", "list").stdout
    assert "nowhere_to_be_found" in table and "kit-distance 0.2.1" in table


def test_why_says_where_a_part_comes_from_or_why_it_is_not_there(site_packages: Path) -> None:
    kit = Kit(disable=["distance"])
    (where, how) = describe_origin("mask nearby", Kit())
    assert where.startswith("the mask 'nearby' comes from kit-distance 0.2.1 (plugin distance): ")
    assert where.endswith("kit_distance.py") and how.strip() == "a recipe selects it by nearby or kit-distance/nearby"
    assert any("disabled by --no-plugin" in line for line in describe_origin("distance", kit))
    assert any("nowhere_to_be_found" in line for line in describe_origin("torn", kit))
    assert any("says API level 2, and this kit has 1" in line for line in describe_origin("kit-tomorrow", kit))
    with pytest.raises(PartNotFound, match="disabled by --no-plugin, and may bring it: kit-distance"):
        describe_origin("mask nearby", kit)
    with pytest.raises(PartNotFound, match=r"did you mean nearby\?[\s\S]*kit-torn 1.0 .* may bring it"):
        describe_origin("nerby", Kit())
    result = kit_command("plugin", "why", "position", "fading")
    assert result.exit_code == 0 and "kit-distance 0.2.1" in result.output


def test_a_package_is_found_by_any_of_its_names(site_packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("distance", "kit-distance", "kit_distance"):
        assert [part.name for part in find_package(name).parts] == ["nearby", "fading"]
    assert [part.name for part in find_package(str(SAMPLE)).parts] == ["nearby", "fading"]
    with pytest.raises(PartNotFound, match=r"did you mean .*distance"):
        find_package("kit-distanse")
    with pytest.raises(KitError, match=r"has no pyproject\.toml"):
        find_package()
    Path("pyproject.toml").write_text('[project]\nname = "kit-empty"\n')
    with pytest.raises(KitError, match=r'add: \[project\.entry-points\."kit\.plugins"\]'):
        find_package()
    monkeypatch.chdir(SAMPLE)
    assert find_package().title == "kit-sample-distance"
    sys.modules.pop("kit_sample_distance", None)


def test_new_says_what_it_wrote(site_packages: Path) -> None:
    result = kit_command("plugin", "new", "gentle", "--kind", "norm")
    assert result.exit_code == 0, result.output
    assert "src/kit_gentle/gentle.py" in result.output and Path("kit-gentle/pyproject.toml").is_file()


@pytest.fixture
def run(site_packages: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunDirectory:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_with_kernels(tmp_path / "cache")))
    monkeypatch.setattr("kit_loss_plot.callback.plot_losses", lambda run: run)
    Path("text.txt").write_text("to be or not to be, that is the question\n" * 20)
    Path("recipe.yaml").write_text(RECIPE)
    kit = Kit()
    return train(kit.recipe("recipe.yaml"), kit).run


def test_a_run_is_locked_to_its_parts(run: RunDirectory, site_packages: Path) -> None:
    parts = Lock.read(run.lock).parts
    assert {"attention softmax", "mask nearby", "norm layer", "optimizer adamw", "tokenizer characters"} <= set(parts)
    assert "objective causal" in parts and "attention additive" not in parts
    nearby = parts["mask nearby"]
    assert (nearby.plugin, nearby.distribution, nearby.version, nearby.options) == (
        "distance", "kit-distance", "0.2.1", 1
    )  # fmt: skip
    same = kit_command("check", "--locked", str(run.path))
    assert same.exit_code == 0 and "everything is as when" in same.output

    # Another version: what changed is said, in the command and when the run is opened.
    (site_packages / "kit_distance-0.2.1.dist-info").rename(site_packages / "kit_distance-0.3.0.dist-info")
    metadata = site_packages / "kit_distance-0.3.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("0.2.1", "0.3.0"))
    with (site_packages / "kit_distance.py").open("a") as file:
        file.write("# edited\n")
    differences = lock_differences(run, Kit())
    assert any(
        "plugin distance was version 0.2.1, is 0.3.0: pip install kit-distance==0.2.1" in it for it in differences
    )
    assert "the mask nearby is not the same code as then (kit-distance 0.3.0)" in differences
    told = kit_command("check", "--locked", str(run.path), "--json")
    assert told.exit_code == 1 and json.loads(told.stdout)["differences"] == differences
    with pytest.warns(DifferentRunWarning, match="was version 0.2.1, is 0.3.0"):
        load_run(run, Kit())

    # Not there at all: what to install is named.
    gone = Kit(disable=["kit-distance"])
    with pytest.raises(KitError, match=r"plugin distance is not here; .* pip install kit-distance==0\.2\.1"):
        load_run(run, gone)
    missing = kit_command("--no-plugin", "distance", "check", "--locked", str(run.path))
    assert missing.exit_code == 4 and "pip install kit-distance==0.2.1" in missing.output


def test_no_third_party(site_packages: Path) -> None:
    Path("recipe.yaml").write_text(RECIPE)
    assert kit_command("check", "recipe.yaml").exit_code == 0
    sys.modules.pop("kit_distance", None)
    refused = kit_command("check", "recipe.yaml", "--no-third-party")
    assert refused.exit_code == 4
    assert "disabled by --no-third-party, and may bring it: kit-distance 0.2.1" in refused.output
    assert "kit_distance" not in sys.modules, "it was not even imported"
    Path("recipe.yaml").write_text(RECIPE.replace("nearby", "causal"))
    assert kit_command("check", "recipe.yaml", "--no-third-party").exit_code == 0


def test_a_check_of_nothing(site_packages: Path) -> None:
    result = kit_command("check")
    assert result.exit_code != 0 and "nothing to check" in str(result.exception)
