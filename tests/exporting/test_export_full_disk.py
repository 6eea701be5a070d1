"""An export onto a full disk ends with one line, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, setrlimit

import pytest
from models.tiny_models import KIT
from processes.full_disk import full_disk
from runs.tiny_runs import PAIRS, trained
from session.compiled_kernels import cache_with_kernels

from kit import KitError, export
from kit.runs.run_directory import RunDirectory

FULL = 20_000
"""Bytes: less than any of the models has, and more than what is written before it."""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return trained(PAIRS, tmp_path_factory.mktemp("pairs"), "training.steps=2")


def test_the_process_is_not_ended_by_the_writer_of_torch(pairs: RunDirectory, tmp_path: Path) -> None:
    """In a process of its own: what went wrong here was a C++ exception that nothing can catch."""
    out = tmp_path / "out" / "exported"
    command = [sys.executable, "-m", "kit", "export", str(pairs.path), "--to", "torch_export", "--output", str(out)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache_with_kernels(tmp_path / "cache"))}
    limit = partial(setrlimit, RLIMIT_FSIZE, (FULL, RLIM_INFINITY))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, preexec_fn=limit)
    assert done.returncode == 2, done.stderr
    assert f"cannot write {out}: " in done.stderr and "File too large" in done.stderr
    assert "Traceback" not in done.stderr and not list(out.parent.iterdir())


@pytest.mark.parametrize("to", ["safetensors", "ctranslate2"])
def test_nothing_is_left_of_a_model_that_does_not_fit(to: str, pairs: RunDirectory, tmp_path: Path) -> None:
    pytest.importorskip({"safetensors": "kit"}.get(to, to))
    with full_disk(FULL), pytest.raises(KitError, match=rf"cannot write {tmp_path}/\S+: .*File too large"):
        export(pairs, to, output=tmp_path / "out", kit=KIT)
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_if_there_is_no_room_for_the_description(
    pairs: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kit.exporting import export as module

    wrote = module._require_passed

    def fill(*given: object) -> None:
        wrote(*given)  # type: ignore[arg-type]
        stack.enter_context(full_disk(100))

    monkeypatch.setattr(module, "_require_passed", fill)
    with ExitStack() as stack, pytest.raises(KitError, match=r"cannot write .*File too large"):
        export(pairs, "safetensors", output=tmp_path / "out", kit=KIT)
    assert not list(tmp_path.iterdir())
