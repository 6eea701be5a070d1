"""Every command as a person types it, with what is printed and the exit code."""

from __future__ import annotations

import io
import json
import platform
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

RECIPE = """\
name: small
model:
  family: encoder-decoder
  width: 32
  vocabulary: 100
  position: sinusoidal
  norm: layer
  encoder: {depth: 2, attention: {use: softmax, heads: 4}, feedforward: relu, residual: post}
  decoder:
    depth: 2
    attention: {use: softmax, heads: 4}
    cross_attention: {use: softmax, heads: 4}
    feedforward: relu
    residual: post
    masks: [causal]
"""
BAD = RECIPE.replace("heads: 4}, feedforward: relu, residual: post}", "heads: 5}, feedforward: relo, residul: post}")


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(RECIPE)
    return str(path)


class Printed(NamedTuple):
    """What a command printed."""

    stdout: str
    stderr: str


def kit(*arguments: str, code: int = 0) -> Printed:
    """Run a command in this process, which has torch imported already."""
    from kit.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["kit", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    assert (end.value.code or 0) == code, err.getvalue() + out.getvalue()
    return Printed(out.getvalue(), err.getvalue())


def kit_process(*arguments: str, code: int = 0) -> Printed:
    """Run a command as a person does."""
    done = subprocess.run([sys.executable, "-m", "kit", *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return Printed(done.stdout, done.stderr)


def test_the_version_is_told_with_those_of_torch_and_python() -> None:
    printed = kit_process("--version").stdout
    assert len(printed.splitlines()) == 1
    for name, number in (
        ("kitformer", metadata.version("kitformer")),
        ("torch", metadata.version("torch")),
        ("Python", platform.python_version()),
    ):
        assert f"{name} {number}" in printed


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys, kit.cli; sys.argv = ['kit', '--help']\n"
        "try:\n    kit.cli.main()\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in ("check", "explain", "diff", "list", "show", "schema"):
        assert command in done.stdout


HEAVY = (
    "lightning_fabric", "pytorch_lightning", "torchmetrics", "torch.distributed.fsdp", "torch.distributed.tensor",
    "torch._dynamo", "torch._inductor", "torch.onnx", "torch.utils.tensorboard", "sympy", "matplotlib", "datasets",
    "pandas", "pyarrow", "sacrebleu", "transformers", "sentencepiece", "ctranslate2", "onnx", "onnxruntime", "uvicorn",
    "starlette", "kit.prediction.load_run", "kit.training.train",
)  # fmt: skip
"""What takes long to import, and is of no use before something is trained, opened, measured or drawn."""


def test_listing_every_part_imports_nothing_heavy_besides_torch() -> None:
    code = (
        "import sys, kit.cli; sys.argv = ['kit', 'list']\n"
        "try:\n    kit.cli.main()\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        f"print('imported:', *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported:"


def test_check_says_that_a_recipe_is_right(recipe: str) -> None:
    assert "is right" in kit_process("check", recipe).stdout
    assert json.loads(kit("check", recipe, "--json").stdout) == {"ok": True, "name": "small"}


def test_check_lists_every_mistake_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    told = kit("check", str(path), code=2).stderr
    assert f"{path}:8: model.encoder.feedforward:" in told
    assert "relo" in told
    assert "did you mean relu" in told
    assert f"{path}:8: model.encoder.residul:" in told
    assert "residual" in told
    problems = json.loads(kit("check", str(path), "--json", code=2).stdout)["problems"]
    assert all(problem["line"] == 8 for problem in problems)


def test_check_names_both_sides_of_what_does_not_fit(recipe: str) -> None:
    told = kit_process("check", recipe, "model.decoder.masks=[]", "model.encoder.attention.heads=5", code=2).stderr
    assert "5 heads do not divide the width 32" in told
    assert "take 4 or 2 heads, or name a head_dim" in told
    assert "do not hide the future" in told
    assert "masks: [causal]" in told
    assert "2 mistakes" in told


def test_overrides_change_the_recipe(recipe: str) -> None:
    small = json.loads(kit("explain", recipe, "--json").stdout)["cost"]
    wide = json.loads(kit("explain", recipe, "model.width=64", "--json").stdout)["cost"]
    assert wide["parameters"] > 3 * small["parameters"]


def test_explain_prints_a_tree_and_the_costs(recipe: str) -> None:
    printed = kit("explain", recipe).stdout
    for words in ("encoder", "attention  softmax", "query_key_value 32 → 96", "parameters", "FLOPs per token"):
        assert words in printed
    assert "layer 0–1" in printed
    assert "shared" not in printed
    assert "table 100 × 32  shared" in kit("explain", recipe, "model.tie=all").stdout


def test_diff_shows_what_differs(recipe: str, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(f"extends: {Path(recipe).name}\nmodel: {{encoder: {{residual: pre}}, width: 64}}\n")
    printed = kit("diff", recipe, str(other)).stdout
    assert "model.width" in printed
    assert "model.encoder.residual" in printed
    data = json.loads(kit("diff", recipe, str(other), "--json").stdout)
    paths = {change["path"]: (change["before"], change["after"]) for change in data["recipe"]}
    assert paths["model.width"] == (32, 64)
    assert paths["model.encoder.residual.use"] == ("post", "pre")
    assert any(change["path"] == "parameters" for change in data["cost"])


def test_list_and_show() -> None:
    names = {(part["kind"], part["name"]) for part in json.loads(kit("list", "--json").stdout)}
    assert {("attention", "softmax"), ("mask", "causal"), ("stack", "transformer")} <= names
    assert "softmax" in kit("list", "attention").stdout
    assert "there is no kind of part called 'atention'" in kit("list", "atention", code=4).stderr
    shown = kit("show", "softmax").stdout
    for words in ("Vaswani", "heads", "Number of attention heads.", "use: softmax", "kitformer"):
        assert words in shown
    assert "did you mean softmax" in kit("show", "softmx", code=4).stderr
    assert json.loads(kit("show", "attention", "softmax", "--json").stdout)[0]["capabilities"]["weights"] is True


def test_schema_is_written_for_editors(tmp_path: Path) -> None:
    target = tmp_path / "recipe.schema.json"
    kit("schema", "--write", str(target))
    written = json.loads(target.read_text())
    assert json.loads(kit("schema").stdout) == written
    assert "softmax" in target.read_text()


def test_a_plugin_can_be_left_out(recipe: str) -> None:
    told = kit("--no-plugin", "residual", "check", recipe, code=4).stderr
    assert "residual" in told
    assert "--no-plugin" in told


def test_a_missing_file_is_told_plainly() -> None:
    told = kit_process("explain", "nowhere.yaml", code=2).stderr
    assert "nowhere.yaml" in told


def test_an_unknown_command_is_told_plainly() -> None:
    assert "No such command 'trian'" in kit_process("trian", code=2).stderr
