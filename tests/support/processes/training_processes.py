"""Trains in real processes, kills some, and looks what is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from session.compiled_kernels import cache_with_kernels

from kit.runs.metrics_file import MetricsFile
from processes.fault_injection import FAULTY_PLUGIN

RECIPE = """
name: tiny
model:
  family: encoder-decoder
  width: 16
  length: 24
  dropout: 0.0
  position: sinusoidal
  norm: scale  # has a parameter without an axis, which FSDP cannot take as it is
  encoder: {depth: 1, attention: {use: softmax, heads: 2}, feedforward: {use: relu, ffn_multiplier: 2}, residual: pre}
  decoder:
    depth: 1
    attention: {use: softmax, heads: 2}
    cross_attention: {use: softmax, heads: 2}
    feedforward: {use: relu, ffn_multiplier: 2}
    residual: pre
    masks: [causal]
  tie: all
data: {use: reverse, max_length: 8, train: 300, validation: 12, test: 4}
tokenizer: words
training:
  steps: 50
  batch_tokens: 240
  optimizer: {use: adamw, learning_rate: 0.01}
  metrics: [token_error]
  validate_every: 25
  checkpoint_every: 5
  accelerator: cpu
"""
PATIENCE = 180.0
"""Seconds that anything may take on a busy machine."""
_SITE = """
import importlib.metadata, sys

HIDDEN = {"transformers", "matplotlib", "tensorboard", "scipy", "sklearn", "pandas"}
for name in HIDDEN:  # what these tests do not need, and what takes seconds to import, is not there
    sys.modules[name] = None
known = importlib.metadata.Distribution.from_name.__func__

def from_name(cls, name):
    if name in HIDDEN:
        raise importlib.metadata.PackageNotFoundError(name)
    return known(cls, name)

importlib.metadata.Distribution.from_name = classmethod(from_name)
"""


@dataclass
class Command:
    """A command that runs in a folder of its own session, with all that it starts."""

    process: subprocess.Popen[str]
    mark: str

    @property
    def session(self) -> list[psutil.Process]:
        """It and everything that came from it and is still there."""
        return [process for process in psutil.process_iter() if _marked(process, self.mark)]

    def ranks(self) -> dict[int, psutil.Process]:
        """The processes that train, by rank, once they are there."""
        found = {}
        for process in self.session:
            try:
                rank = process.environ().get("RANK")
                if rank is not None and "kit" in process.cmdline():
                    found[int(rank)] = process
            except (psutil.Error, OSError):
                continue
        return found

    def kill_all(self) -> None:
        """As when the machine loses power."""
        for process in [self.process, *self.session]:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def end(self, within: float = PATIENCE) -> tuple[int, str]:
        """What it ended with and said; nothing may be left of it."""
        try:
            text, _ = self.process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            self.kill_all()
            text, _ = self.process.communicate()
            raise AssertionError(f"not over within {within} s:\n{text}") from None
        deadline = time.monotonic() + 5
        while (left := self.session) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left, f"still there: {[process.cmdline() for process in left]}\n{text}"
        return self.process.returncode, text


@dataclass
class Place:
    """A folder with the recipe, where commands are run."""

    folder: Path
    commands: list[Command] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "tiny.yaml").write_text(RECIPE)
        site = self.folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(_SITE)
        (site / "trouble.py").write_text(FAULTY_PLUGIN)
        metadata = site / "trouble-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: trouble\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text("[kit.plugins]\ntrouble = trouble\n")

    def start(self, *arguments: str, program: Sequence[str] | None = None, **environment: str) -> Command:
        """`kit ARGUMENTS`, or another program, in the background."""
        mark = uuid.uuid4().hex
        program = program or [sys.executable, "-P", "-m", "kit"]
        known = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PYTEST_"))}
        known |= {
            "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(cache_with_kernels(self.folder / "cache")),
            "PYTHONPATH": str(self.folder / "site"),
            "KIT_TEST_MARK": mark,
        }
        process = subprocess.Popen(
            [*program, *arguments],
            cwd=self.folder,
            env=known | environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        command = Command(process, mark)
        self.commands.append(command)
        return command

    def run(self, *arguments: str, **environment: str) -> Path:
        """Train to the end; gives the folder of the run."""
        code, text = self.start(*arguments, **environment).end()
        assert code == 0, text
        return self.newest()

    def newest(self) -> Path:
        """The run that was begun last."""
        return max((self.folder / "runs" / "tiny").iterdir(), key=lambda path: int(path.name))

    def wait_for(self, happened: Callable[[], bool], command: Command) -> None:
        """Look every now and then until it happened, or the command is over."""
        deadline = time.monotonic() + PATIENCE
        while not happened() and command.process.poll() is None:
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.01)

    def wait_for_step(self, step: int, command: Command) -> None:
        """Until a step is logged."""

        def logged() -> bool:
            files = list((self.folder / "runs").glob("tiny/*/metrics.csv"))
            return bool(files) and len(files[-1].read_bytes().splitlines()) > step

        self.wait_for(logged, command)


def losses(run: Path, *columns: str) -> list[str]:
    """The loss of every step to the last digit."""
    rows = MetricsFile(run / "metrics.csv").rows()
    assert [int(row["step"]) for row in rows] == list(range(1, len(rows) + 1))
    return [" ".join(row[name] for name in ("loss", *columns)) for row in rows]


def farthest(one: Sequence[str], other: Sequence[str]) -> float:
    """The largest difference between two curves."""
    return max(abs(float(a) - float(b)) for a, b in zip(one, other, strict=True))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get("KIT_TEST_MARK") == mark
    except (psutil.Error, OSError):
        return False
