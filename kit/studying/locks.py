"""What the cells of a study ran with, in one file: what all of them share, and what each has besides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kit.runs.directory import RunDirectory
from kit.studying.cells import cell_of
from kit.studying.planning import Plan, result_of

DIGEST = "digest"
"""What a cell's digest is called among the lines of its lock."""


def gathered_locks(plan: Plan) -> dict[str, Any]:
    """The locks of all cells that are done; what is the same in every one stands under `all`.

    Each has the digest of its cell, by which one can tell whether the study file still describes what was run.
    """
    every = [cell for number in range(len(plan.combinations)) for cell in plan.cells(number) or ()]
    cells = {cell.title: cell for cell in every if result_of(cell) is not None}
    files = {title: RunDirectory(cell.folder).lock for title, cell in cells.items()}
    flat = {title: dict(_flat(json.loads(file.read_text()))) for title, file in files.items() if file.is_file()}
    if not flat:
        return {}
    first, *others = flat.values()
    common = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    own = {
        title: {DIGEST: cells[title].digest, **{key: value for key, value in lock.items() if key not in common}}
        for title, lock in flat.items()
    }
    return {"all": common, "cells": own}


def _flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested keys joined with dots."""
    found: list[tuple[str, Any]] = []
    for key, inner in value.items():
        name = f"{prefix}{key}"
        found += _flat(inner, f"{name}.") if isinstance(inner, Mapping) else [(name, inner)]
    return found


def digests(plan: Plan) -> dict[str, str]:
    """The digest of every cell that a study can have, by its title: for each value of a sweep, whatever it chose."""
    found = {}
    for number, each in enumerate(plan.combinations):
        for value in [cell.swept for cell in plan.sweeps.get(number, ())] or [None]:
            for seed in plan.study.seeds:
                cell = cell_of(plan.study, plan.kit, each, seed, plan.root, value)
                found[cell.title] = cell.digest
    return found
