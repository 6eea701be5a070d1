"""Search through Optuna: trials are cells, the storage is shared, and the same seed proposes the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.studying.results import report
from kit.studying.searching import HOLDER, opened, search, tried

pytest.importorskip("optuna")

SPACE = {
    "training.optimizer.rate": {"low": 1e-4, "high": 1e-1, "log": True},
    "model.norm": {"choices": ["layer", {"use": "rms", "epsilon": 1e-4}]},
    "model.decoder.depth": {"low": 1, "high": 2, "whole": True},
}


@pytest.fixture
def made(plan, monkeypatch):
    """In this process: what is tested is the search, and workers have tests of their own."""
    from kit.studying import searching
    from kit.studying.workers import attempt

    class Here:
        def __init__(self, count, without):
            pass

        def run(self, folders, ended):
            for folder in folders:
                ended(folder, attempt(folder, searching_plan.kit))

    monkeypatch.setattr(searching, "Workers", Here)
    searching_plan = plan(axes=None, search={"space": SPACE, "trials": 3}, seeds=1)
    return searching_plan


def test_trials_are_cells_and_the_best_wins(made):
    assert search(made) == 0
    assert len(list(Path("studies").rglob("result.json"))) == 3
    (outcome,) = report(made).outcomes
    assert len(outcome.rows) == 3 and outcome.winner is not None
    figures = {row.label: row.estimate.mean for row in outcome.rows}
    assert figures[outcome.winner] == min(figures.values())
    assert search(made) == 0 and len(tried(made)) == 3  # as many as were wanted are there


def test_a_trial_that_was_cut_short_is_taken_up_with_its_values(made):
    study = opened(made)
    trial = study.ask()
    import socket

    trial.set_user_attr(HOLDER, f"{socket.gethostname()} 999999999")
    rate = trial.suggest_float("training.optimizer.rate", 1e-4, 1e-1, log=True)
    search(made)
    first = opened(made).get_trials()[0]
    assert first.state.name == "COMPLETE" and first.params["training.optimizer.rate"] == rate
    assert len(opened(made).get_trials()) == 3


def test_the_storage_may_be_a_database(plan, tmp_path):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    made = plan(axes=None, search={"space": SPACE, "trials": 1, "storage": url}, seeds=1)
    assert opened(made).study_name == opened(made).study_name == "small"
    assert (tmp_path / "shared.db").is_file()
