"""Tools are plugins: with the package of one and its entry points taken away, everything else works."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kit.cli.plugin_commands import OWN_TOOLS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
POINTS: dict[str, dict[str, str]] = PROJECT["entry-points"]
COMMANDS = {name: value.partition(":")[0].partition(".")[0] for name, value in POINTS["kit.commands"].items()}
"""Commands, each with the package that brings it."""
TOOLS = sorted(set(COMMANDS.values()))
RECIPE = """\
name: small
model:
  family: decoder
  width: 16
  length: 8
  vocabulary: 20
  position: sinusoidal
  norm: layer
  decoder: {depth: 1, attention: {use: softmax, heads: 2}, feedforward: relu, residual: pre, masks: [causal]}
"""
PROGRAM = """\
import json, sys
sys.path[:0] = [sys.argv[1]]
sys.path.append(sys.argv[2])
import kit
from kit.cli.main import app
from typer.testing import CliRunner

found = {"missing": [name for name in kit.__all__ if getattr(kit, name, None) is None]}
for arguments in json.load(sys.stdin):
    result = CliRunner().invoke(app, arguments)
    found[" ".join(arguments)] = [result.exit_code, result.output + repr(result.exception)]
print(json.dumps(found))
"""


def installed_without(folder: Path, package: str | None) -> None:
    """The project as an installer leaves it, without one package: links to the others, and the metadata."""
    (folder / "kit").symlink_to(ROOT / "kit")
    for path in (ROOT / "plugins").iterdir():
        if path.name not in (package, "__pycache__"):
            (folder / path.name).symlink_to(path)
    info = folder / f"kitformer-{PROJECT['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kitformer\nVersion: {PROJECT['version']}\n")
    lines: list[str] = []
    for group, points in POINTS.items():
        kept = {name: value for name, value in points.items() if value.partition(":")[0].split(".")[0] != package}
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in kept.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


def run(folder: Path, *commands: list[str]) -> dict[str, Any]:
    """The exit code and output of each command; no `.pth` file is read, so that only the folder has the project."""
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", PROGRAM, str(folder), sysconfig.get_path("purelib")],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("package", [*TOOLS, None])
def test_everything_else_works_without_it(tmp_path: Path, package: str | None) -> None:
    site = tmp_path / "site"
    site.mkdir()
    installed_without(site, package)
    recipe = tmp_path / "small.yaml"
    recipe.write_text(RECIPE)
    own = [name for name, brought_by in COMMANDS.items() if brought_by == package]
    others = [name for name in COMMANDS if name not in own]
    everywhere = [["--help"], ["list"], ["list", "plugins"], ["check", str(recipe)], ["explain", str(recipe)]]
    found = run(site, *everywhere, *([name, "--help"] for name in [*others, *own]))
    assert found.pop("missing") == [], "a public name of kit is at home in a tool"
    for words, (code, output) in found.items():
        if words.removesuffix(" --help") not in own:
            assert code == 0, f"kit {words}: {output}"
    for name in own:
        code, output = found[f"{name} --help"]
        assert code == 2 and f"No such command '{name}'" in output, output
        assert f"The plugin {package} brings it" in output.replace("\n", " ") or str(package) in output
        assert "pip install" in output
    for name in COMMANDS:
        listed = any(line.strip("│ ").startswith(f"{name} ") for line in found["--help"][1].splitlines())
        assert listed == (name not in own)
    assert package is None or f"{package.removeprefix('kit_')} " not in found["list plugins"][1].split("\n", 1)[1]


def test_the_commands_of_the_tools_are_known_by_name() -> None:
    assert COMMANDS == OWN_TOOLS
