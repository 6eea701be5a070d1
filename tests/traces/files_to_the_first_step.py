"""Counts the files of `kit/` between the command `kit train` and the end of its first optimizer step.

Run it as `python tests/traces/files_to_the_first_step.py`. It trains a tiny model that reverses sequences, in this
process, and notes every function of `kit/` that is called from the start of the command `train` until the first
optimizer step ends. Importing a module is no call: module bodies and class bodies do not count. Plugins, PyTorch and
Lightning are not files of `kit/`; a call that passes through them belongs to the file of `kit/` that it began in.

Two numbers are printed:

- *the reader's way*: the files that somebody opens who reads the command and then `kit/training/train.py` from top to
  bottom, and looks up what these two call. Exactly: a file counts if one of its functions is on the call stack when the
  optimizer makes its first step, or if one of its functions is called by `kit/cli/train.py` or by
  `kit/training/train.py` with no other file of `kit/` in between;
- *all files*: every file of which any function is called, however deep.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

KIT = Path(__file__).parents[2] / "kit"
READ = ("cli/train.py", "training/train.py")
"""The files that are read from top to bottom."""

RECIPE = """
name: reverse
model:
  family: encoder-decoder
  width: 16
  length: 24
  position: sinusoidal
  norm: layer
  encoder: {depth: 1, attention: {use: softmax, heads: 2}, feedforward: {use: relu, ffn_multiplier: 2}, residual: pre}
  decoder:
    depth: 1
    attention: {use: softmax, heads: 2}
    cross_attention: {use: softmax, heads: 2}
    feedforward: {use: relu, ffn_multiplier: 2}
    residual: pre
    masks: [causal]
data: {use: reverse, max_length: 8, train: 60, validation: 10, test: 10}
tokenizer: words
training:
  steps: 1
  batch_tokens: 120
  accelerator: cpu
  optimizer: {use: adamw, learning_rate: 0.01}
  metrics: [token_error]
"""


@dataclass
class Trace:
    """The files of `kit/` in the order of their first call."""

    files: list[str] = field(default_factory=list)
    way: list[str] = field(default_factory=list)
    """Those on the reader's way."""
    running: bool = False
    begun: bool = False
    _names: dict[CodeType, str | None] = field(default_factory=dict)

    def observe(self, frame: FrameType, event: str, argument: Any) -> None:
        """The profile function: notes a call of a function of `kit/`."""
        if event != "call" or (name := self._name(frame.f_code)) is None:
            return
        if not self.begun and name == READ[0] and frame.f_code.co_name == "train":
            self.begun = self.running = True
        if not self.running:
            return
        if name not in self.files:
            self.files.append(name)
        if name not in self.way and (name in READ or self._caller(frame) in READ):
            self.way.append(name)

    def stop(self, *_: Any) -> None:
        """The first optimizer step has ended; what led to it is on the stack."""
        if not self.running:
            return
        self.running = False
        frame: FrameType | None = sys._getframe(1)
        stack = []
        while frame is not None:
            if (name := self._name(frame.f_code)) is not None:
                stack.append(name)
            frame = frame.f_back
        command = stack.index(READ[0]) + 1
        self.way += [name for name in dict.fromkeys(stack[:command]) if name not in self.way]

    def _caller(self, frame: FrameType) -> str | None:
        """The nearest file of `kit/` that the call came from."""
        back = frame.f_back
        while back is not None:
            if (name := self._name(back.f_code)) is not None:
                return name
            back = back.f_back
        return None

    def _name(self, code: CodeType) -> str | None:
        """The file of a function of `kit/`; None for any other code, for a module's body and for a class's body."""
        if code not in self._names:
            path = Path(code.co_filename)
            inside = bool(code.co_flags & inspect.CO_OPTIMIZED) and path.is_relative_to(KIT)
            self._names[code] = path.relative_to(KIT).as_posix() if inside else None
        return self._names[code]


def trace_training() -> Trace:
    """Train one step in a folder of its own, with the command's own code, and note the files."""
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from typer.testing import CliRunner

    from kit.cli.main import app

    trace = Trace()
    before = Path.cwd()
    handle = register_optimizer_step_post_hook(trace.stop)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        Path("reverse.yaml").write_text(RECIPE)
        threading.setprofile(trace.observe)
        sys.setprofile(trace.observe)
        try:
            result = CliRunner().invoke(app, ["train", "reverse.yaml"], catch_exceptions=False)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            handle.remove()
            os.chdir(before)
    if result.exit_code or trace.running or not trace.begun:
        raise RuntimeError(f"the training did not come to its first step:\n{result.output}")
    return trace


if __name__ == "__main__":
    found = trace_training()
    for number, name in enumerate(found.files, 1):
        print(f"{number:3}  {'*' if name in found.way else ' '}  kit/{name}")
    print(f"{len(found.way)} files on the reader's way (marked *), {len(found.files)} files in all")
