"""What the documentation shows was run from the studies as they stand: digests of cells say so."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from kit_study.locks import DIGEST, digests, merged_locks
from kit_study.planning import Plan
from kit_study.runner import run_study
from kit_study.study_file import read_study

ROOT = Path(__file__).parents[2]
LONG = ("long_range",)
"""Solving for the widths of all its stacks takes most of a minute."""
STUDIES = [
    pytest.param(path.stem, marks=pytest.mark.slow if path.stem in LONG else ())
    for path in sorted((ROOT / "recipes" / "studies").glob("*.yaml"))
]


def outdated(plan: Plan, locks: dict) -> list[str]:
    """The cells of a file of locks that the study no longer describes."""
    known = digests(plan)
    return [title for title, lock in locks["cells"].items() if DIGEST in lock and known.get(title) != lock[DIGEST]]


def test_locks_carry_the_digests_of_their_cells(plan):
    made = plan(sweep={"values": [1e-9, 0.02]}, seeds=2)
    run_study(made)
    locks = merged_locks(made)
    folders = {path.parent.name.rpartition("-")[2] for path in made.folder.glob("cells/*/result.json")}
    assert len(locks["cells"]) == 4 and {lock[DIGEST] for lock in locks["cells"].values()} <= folders
    assert outdated(made, locks) == []
    assert outdated(plan(sweep={"values": [1e-9, 0.02]}, seeds=2, changes={"training.steps": 7}), locks) == list(
        locks["cells"]
    )


def test_one_cell_alone_has_its_digest_too(plan):
    made = plan(seeds=1, axes={"norm": {"path": "model.norm", "values": ["layer"]}})
    run_study(made)
    (lock,) = merged_locks(made)["cells"].values()
    assert lock[DIGEST] == made.cells(0)[0].digest


@pytest.mark.parametrize("name", STUDIES)
def test_what_is_documented_was_run_from_the_study_as_it_stands(kit, tmp_path, name):
    file = ROOT / "docs" / "studies" / f"{name}.locks.json"
    locks = json.loads(file.read_text())
    if not any(DIGEST in lock for lock in locks["cells"].values()):
        said = f"{file.name} is from before locks carried digests: run the study anew, and kit study --docs docs"
        warnings.warn(said, stacklevel=1)
        pytest.skip(said)
    study = read_study(ROOT / "recipes" / "studies" / f"{name}.yaml", kit.registry)
    old = outdated(Plan(study, kit, tmp_path / "studies"), locks)
    assert not old, f"{file.name} shows runs that {name}.yaml no longer describes; run it anew: {', '.join(old)}"
