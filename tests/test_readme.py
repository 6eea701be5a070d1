"""What the README shows is run: its recipes, its Python, its plugin, and its commands with exactly what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"<!-- (?P<mark>[a-z]+)(?:: (?P<what>\S+))? -->\n```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A marked block of the README."""

    mark: str
    what: str | None
    text: str

    def commands(self) -> list[tuple[str, str]]:
        """Each command of a console block with what is shown below it."""
        pieces = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        return [(command.strip(), output) for command, _, output in (piece.partition("\n") for piece in pieces)]


def blocks(mark: str) -> list[Block]:
    found = [Block(match["mark"], match["what"], match["text"]) for match in BLOCK.finditer(_readme())]
    return [block for block in found if block.mark == mark]


def _readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("readme"))


def unpacked(place: Path) -> Path:
    """The files of the README in a folder, its plugin installed beside them."""
    for block in blocks("file"):
        assert block.what is not None
        path = place / block.what
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", place / "installed", place / "plugin"], check=True, capture_output=True)
    return place


def printed(command: str, block: Block, folder: Path) -> str:
    """What a command of a block prints, in the folder of the README's files."""
    words = command.split()
    assert words[0] == "kit"
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    if block.what == "plugin":
        environment["PYTHONPATH"] = str(folder / "installed")
    whole = [sys.executable, "-m", "kit", *words[1:]]
    done = subprocess.run(whole, cwd=folder, env=environment, capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("block", blocks("output"), ids=lambda block: block.commands()[0][0])
def test_commands_print_what_is_shown(block: Block, folder: Path) -> None:
    for command, shown in block.commands():
        assert printed(command, block, folder).strip() == shown.strip(), command


def test_what_is_added_for_training_trains(folder: Path) -> None:
    block = next(block for block in blocks("file") if block.what == "speaker.yaml")
    small = "model.width=32 model.encoder.depth=1 model.decoder.depth=1 training.batch_tokens=512"
    assert "would train  speaker" in printed(f"kit train speaker.yaml --dry-run {small}", block, folder)


@pytest.mark.parametrize("block", blocks("run"), ids=["python"])
def test_python_runs(block: Block, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", block.text], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_two_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", _readme(), flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
