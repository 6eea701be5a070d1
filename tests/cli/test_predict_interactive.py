"""`kit predict RUN` at a terminal: it says that it waits for lines, answers each, and Ctrl-C ends it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from runs import tiny_runs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_runs.trained(tiny_runs.TEXTS, tmp_path_factory.mktemp("runs"), "training.steps=1").path


@contextmanager
def predicting(run: Path, stdin: int) -> Iterator[subprocess.Popen[str]]:
    """`kit predict` that reads from a file descriptor."""
    with subprocess.Popen(
        [sys.executable, "-m", "kit", "predict", str(run), "--search", "length=2", "--json"],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # where tests run in the background
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code after Ctrl-C, and what else was written to standard error."""
    process.send_signal(signal.SIGINT)
    return process.wait(60), process.stderr.read() if process.stderr else ""


def test_at_a_terminal_it_says_that_it_waits_and_ctrl_c_ends_it(run):
    keyboard, terminal = pty.openpty()
    with predicting(run, terminal) as process:
        assert process.stderr is not None and process.stdout is not None
        assert any("Ctrl-D ends" in line for line in process.stderr)
        os.write(keyboard, b"the cat\n")
        assert '"input": "the cat"' in process.stdout.readline()
        assert interrupted(process) == (130, "")
    os.close(keyboard)
    os.close(terminal)


def test_a_pipe_that_is_silent_can_be_interrupted_and_nothing_is_said(run):
    reader, writer = os.pipe()
    with predicting(run, reader) as process:
        os.write(writer, b"the\n")
        assert process.stdout is not None and '"input": "the"' in process.stdout.readline()
        code, said = interrupted(process)
        assert code == 130 and "Fatal" not in said and "Ctrl-D" not in said, said
    os.close(reader)
    os.close(writer)
