"""Merged locks of a study's cells: the entries that all share, and those of each cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kit import RunDirectory
from kit_study.cells import cell_of
from kit_study.planning import Plan, result_of

DIGEST = "digest"
"""The key of a cell's digest."""


def merged_locks(plan: Plan) -> dict[str, Any]:
    """Merges the locks of all cells that are done; common entries are under `all`.

    Each cell has its digest, which differs if the study file has changed since the run.
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
    """Flattens nested keys, joined by dots."""
    found: list[tuple[str, Any]] = []
    for key, inner in value.items():
        name = f"{prefix}{key}"
        found += _flat(inner, f"{name}.") if isinstance(inner, Mapping) else [(name, inner)]
    return found


def digests(plan: Plan) -> dict[str, str]:
    """Returns the digest of every possible cell of a study by its title, including all values of sweeps."""
    found = {}
    for number, each in enumerate(plan.combinations):
        for value in [cell.swept for cell in plan.sweeps.get(number, ())] or [None]:
            for seed in plan.study.seeds:
                cell = cell_of(plan.study, plan.kit, each, seed, plan.root, value)
                found[cell.title] = cell.digest
    return found
