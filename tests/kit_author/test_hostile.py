"""A recipe or a run alone imports nothing and runs nothing: only what is installed as an entry point is code."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import tiny_runs

from kit import DifferentRunWarning, Kit, KitError, load_run
from kit.training.train import train

KIT = Kit()
MARK = "hostile-was-here"
RECIPE = """
name: tiny
model:
  family: decoder
  width: 8
  length: 16
  norm: layer
  decoder: {depth: 1, attention: {use: softmax, heads: 2}, feedforward: relu, residual: pre, masks: [causal]}
data: {use: plain_text, train: text.txt}
tokenizer: characters
training: {steps: 2, batch_tokens: 40, validate_every: 2, checkpoint_every: 1}
"""


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {MARK}",)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path) -> Iterator[None]:
    evil = f"import pathlib\npathlib.Path({MARK!r}).touch()\nclass Part: ...\n"
    with tiny_runs.alone(tmp_path):
        for name in ("kit_evil.py", "evil.py", "conftest.py", "sitecustomize.py"):
            Path(name).write_text(evil)
        yield


@pytest.mark.parametrize(
    "attention",
    [
        "kit_evil",
        "kit_evil/part",
        "kit_evil.Part",
        "kit_evil:Part",
        "evil.py",
        "os.system",
        "{use: kit_evil, _target_: kit_evil.Part}",
        "{use: softmax, class: kit_evil.Part}",
        "{use: softmax@1, migrate: kit_evil}",
        "!!python/object/apply:os.system ['touch hostile-was-here']",
        "!!python/name:kit_evil.Part",
        "${KIT_EVIL:-kit_evil}",
    ],
)
def test_a_recipe_imports_nothing(attention: str) -> None:
    before = set(sys.modules)
    with pytest.raises(KitError):
        KIT.recipe(RECIPE.replace("{use: softmax, heads: 2}", attention))
    assert not Path(MARK).exists()
    assert not {name for name in set(sys.modules) - before if "evil" in name}


def test_a_recipe_on_the_command_line_imports_nothing_from_its_folder() -> None:
    Path("recipe.yaml").write_text(RECIPE.replace("{use: softmax, heads: 2}", "kit_evil"))
    command = [str(Path(sys.executable).with_name("kit")), "check", "recipe.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 4 and "no attention is called 'kit_evil'" in done.stderr
    assert not Path(MARK).exists()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    Path("text.txt").write_text("to be or not to be, that is the question\n" * 20)
    made = train(KIT.recipe(RECIPE), KIT).run
    return Path(shutil.move(made.path, tmp_path / "from-a-stranger"))


def test_a_run_executes_nothing(run: Path) -> None:
    """Whatever its files hold: each is refused with a reason or read as data, and none of them is run."""
    assert load_run(run, KIT).model is not None
    payload = pickle.dumps(Evil())
    assert MARK.encode() in payload
    victims = [path for path in run.rglob("*") if path.is_file()]
    assert {path.name for path in victims} >= {"recipe.yaml", "lock.json", "weights.safetensors", "tokenizer.json"}
    for victim in victims:
        content = victim.read_bytes()
        victim.write_bytes(payload)
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("warnings.warn", lambda *told, **more: None)
                load_run(run, KIT)
        except KitError:
            pass
        victim.write_bytes(content)
        assert not Path(MARK).exists(), victim
    assert load_run(run, KIT).model is not None


def test_a_lock_installs_nothing_and_imports_nothing(run: Path) -> None:
    lock = json.loads((run / "lock.json").read_text())
    lock["plugins"]["evil"] = {"distribution": "kit-evil", "version": "1.0", "sha256": "0"}
    lock["parts"]["attention evil"] = {
        "plugin": "evil", "distribution": "kit-evil", "version": "1.0", "options": 1, "sha256": "0"
    }  # fmt: skip
    (run / "lock.json").write_text(json.dumps(lock))
    with pytest.warns(DifferentRunWarning, match=r"plugin evil is not here.*pip install kit-evil==1\.0"):
        load_run(run, KIT)
    assert not Path(MARK).exists() and "kit_evil" not in sys.modules
