"""Forges runs: one field of a JSON file is another, and sizes, digests and `latest` are made to fit it."""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from kit import RunDirectory

REMOVED = object()
"""The value of a field that is left out."""


def newest_checkpoint(run: RunDirectory) -> Path:
    """The folder of the checkpoint with the highest step."""
    return max(run.checkpoints.glob("step-*"))


def forge(run: RunDirectory, file: str, field: Sequence[str | int], value: Any) -> None:
    """Change a field of a file in the run, or in its newest checkpoint; an empty field is the whole file."""
    checkpoint = newest_checkpoint(run)
    path = run.path / file if (run.path / file).is_file() else checkpoint / file
    content = changed(json.loads(path.read_text()), field, value)
    if path.name == "manifest.json":
        remake_manifest(run, checkpoint, content)
        return
    path.write_text(json.dumps(content))
    if path.parent == checkpoint:
        remake_manifest(run, checkpoint)


def changed(content: Any, field: Sequence[str | int], value: Any) -> Any:
    """A JSON value in which one field is another."""
    if not field:
        return value
    holder = content
    for step in field[:-1]:
        holder = holder[step]
    if value is REMOVED:
        del holder[field[-1]]
    else:
        holder[field[-1]] = value
    return content


def remake_manifest(run: RunDirectory, checkpoint: Path, content: Any = None) -> None:
    """Make the manifest of a checkpoint fit its files, or make it of `content`, with its digest; and `latest`."""
    path = checkpoint / "manifest.json"
    if content is None:
        content = json.loads(path.read_text())
        for name in content["parts"]:
            data = (checkpoint / name).read_bytes()
            content["parts"][name] = [len(data), hashlib.sha256(data).hexdigest()]
    if isinstance(content, dict):
        content.pop("digest", None)
        content["digest"] = hashlib.sha256(canonical(content)).hexdigest()
    path.write_bytes(canonical(content))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (run.checkpoints / "latest").write_text(f"{checkpoint.name} {digest}\n")


def canonical(content: Any) -> bytes:
    """The form in which a manifest is written and hashed."""
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail what hangs inside."""

    def fail(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"hangs for more than {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
