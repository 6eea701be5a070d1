"""The names of a run's classes, kept with it because its data may be elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kit.runs.directory import RunDirectory, RunError


def write_labels(run: RunDirectory, labels: Sequence[str]) -> None:
    """Keep the names of the classes with the run, which its data may not be."""
    if labels:
        run.write(run.labels, json.dumps(list(labels), ensure_ascii=False) + "\n")


def read_labels(run: RunDirectory) -> tuple[str, ...]:
    """The names of the classes; empty where there are none."""
    if not run.labels.is_file():
        return ()
    try:
        labels = json.loads(run.labels.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{run.labels} is not JSON: {error}") from error
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise RunError(f"{run.labels} is not a list of names")
    return tuple(labels)
