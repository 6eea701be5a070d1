"""With the built wheel alone: a package is written, tested, built, installed, trained, resumed, decoded, watched,
exported and run in two processes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from models.part_packages import COSTLY
from processes.virtual_environments import Environment, build
from session.compiled_kernels import cache_with_kernels

ROOT = Path(__file__).parents[2]
USE = """
from kit import Kit, AttentionRecorder, TokenBatch, load_run
from kit import export
import torch

kit = Kit()
opened = load_run("lens", kit)
ids = torch.tensor([opened.tokenizers.source.encode("1 2 3 4")])
observer = AttentionRecorder()
written = torch.tensor([[1, 7, 8]])
watched = opened.model(TokenBatch.of(ids), TokenBatch.of(written), observer=observer)
plain = opened.model(TokenBatch.of(ids), TokenBatch.of(written))
exported = export(opened, "torch_export", output="exported", kit=kit)
print(json.dumps({
    "files": [__import__(name).__file__ for name in ("kit", "kit_attention", "kit_lens")],
    "attention": type(opened.model.encoder.stack.layers[0].attention).__name__ if hasattr(opened.model.encoder, "stack")
    else "",
    "weights": {site: list(weights.shape) for site, weights in observer.by_site.items()},
    "same": float((watched - plain).abs().max()),
    "exported": [check.difference <= check.limit for check in exported.checks],
    "differences": list(opened.differences),
}))
"""

pytestmark = pytest.mark.xdist_group("wheel")


def test_from_an_idea_to_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_with_kernels(tmp_path / "cache")))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    environment = Environment(tmp_path / "environment", [build(ROOT, tmp_path / "wheel")])
    work = tmp_path / "work"
    work.mkdir()

    # Write it, and run its own tests as they are; the laws that take seconds are run by a test of their own.
    assert "kit-lens" in environment.kit("plugin", "new", "lens", "--kind", "attention", within=work)
    package = work / "kit-lens"
    quick = f"not ({' or '.join(sorted(COSTLY))})"
    tested = environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", quick, within=package)
    assert "passed" in tested and "failed" not in tested

    # Build it, install it, see that it is found.
    environment.install(build(package, tmp_path / "lens"))
    listed = json.loads(environment.kit("plugin", "list", "--json", within=work))
    (found,) = [plugin for plugin in listed if plugin["distribution"] == "kit-lens"]
    assert (found["status"], found["version"], found["api"]) == ("loaded", "0.1.0", 1)
    assert found["parts"] == ["attention lens"]

    # Train 20 steps, go on for four more, decode with beam.
    recipe = str(package / "recipes" / "lens.yaml")
    assert "trained 20 steps" in environment.kit("train", recipe, "training.accelerator=cpu", within=work)
    assert "trained 24 steps" in environment.kit("resume", "lens", "training.steps=24", within=work)
    answers = environment.kit("predict", "lens", "1 2 3", "--search", "beam size=3", "--nbest", "3", within=work)
    assert len(answers.strip().splitlines()) == 3

    # Watch it and export it; the lock says what it was made with.
    used = environment.answer(USE, within=work)
    assert isinstance(used, dict)
    assert all(Path(file).is_relative_to(environment.folder) for file in used["files"])
    assert used["weights"]["encoder.0.attention"] == [1, 4, 4, 4]
    assert set(used["weights"]) == {"encoder.0.attention", "decoder.0.attention", "decoder.0.cross_attention"}
    assert used["same"] < 1e-5
    assert used["exported"] and all(used["exported"])
    assert used["differences"] == []
    lock = json.loads((work / "runs" / "lens" / "1" / "lock.json").read_text())
    assert lock["parts"]["attention lens"]["distribution"] == "kit-lens"
    assert lock["parts"]["attention lens"]["version"] == "0.1.0"

    # Two processes.
    many = ["training.devices=2", "training.accelerator=cpu", "training.steps=4", "name=pair"]
    environment.kit("train", recipe, *many, within=work)
    assert (work / "runs" / "pair" / "1" / "weights.safetensors").is_file()
