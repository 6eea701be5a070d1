"""What the cells of a study ran with, in one file: what all of them share, and what each has besides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kit.runs.directory import RunDirectory
from kit.studying.planning import Plan, result_of


def gathered_locks(plan: Plan) -> dict[str, Any]:
    """The locks of all cells that are done; what is the same in every one stands under `all`."""
    cells = [cell for number in range(len(plan.combinations)) for cell in plan.cells(number) or ()]
    files = {cell.title: RunDirectory(cell.folder).lock for cell in cells if result_of(cell) is not None}
    flat = {title: dict(_flat(json.loads(file.read_text()))) for title, file in files.items() if file.is_file()}
    if not flat:
        return {}
    first, *others = flat.values()
    common = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    own = {title: {key: value for key, value in lock.items() if key not in common} for title, lock in flat.items()}
    return {"all": common, "cells": own}


def _flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested keys joined with dots."""
    found: list[tuple[str, Any]] = []
    for key, inner in value.items():
        name = f"{prefix}{key}"
        found += _flat(inner, f"{name}.") if isinstance(inner, Mapping) else [(name, inner)]
    return found
