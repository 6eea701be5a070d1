"""Search through Optuna: trials are cells, the storage is shared, and the same seed proposes the same."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kit import KitError
from kit.cli.console import screen
from kit_study import trials
from kit_study.command import show
from kit_study.planning import Plan
from kit_study.results import report
from kit_study.search import search
from kit_study.trials import HOLDER, TROUBLE, all_trials, open_storage

pytest.importorskip("optuna")

SPACE = {
    "training.optimizer.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True},
    "model.norm": {"choices": ["layer", {"use": "rms", "epsilon": 1e-4}]},
    "model.decoder.depth": {"low": 1, "high": 2, "whole": True},
}


@pytest.fixture
def here(plan, monkeypatch):
    """Plans whose cells run in this process: what is tested is the search, and workers have tests of their own."""
    from kit_study import search as searching
    from kit_study.workers import try_cell

    counts: list[int] = []

    class Here:
        def __init__(self, count, without):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            pass

        def run(self, folders, ended):
            counts.append(len(folders))
            for folder in folders:
                ended(folder, try_cell(folder, made[-1].kit))

    monkeypatch.setattr(searching, "Workers", Here)
    made: list[Plan] = []

    def make(**changes) -> Plan:
        made.append(plan(axes=None, **{"search": {"space": SPACE, "trials": 3}, "seeds": 1, **changes}))
        return made[-1]

    make.counts = counts
    return make


@pytest.fixture
def made(here):
    return here()


def test_trials_are_cells_and_the_best_wins(made):
    assert search(made) == 0
    assert len(list(Path("studies").rglob("result.json"))) == 3
    (outcome,) = report(made).outcomes
    assert len(outcome.rows) == 3 and outcome.winner is not None
    figures = {row.label: row.estimate.mean for row in outcome.rows}
    assert figures[outcome.winner] == min(figures.values())
    assert search(made) == 0 and len(all_trials(made)) == 3  # as many as were wanted are there


def test_a_trial_that_was_cut_short_is_taken_up_with_its_values(made):
    study = open_storage(made)
    trial = study.ask()
    trial.set_user_attr(HOLDER, f"{socket.gethostname()} 999999999")
    rate = trial.suggest_float("training.optimizer.learning_rate", 1e-4, 1e-1, log=True)
    search(made)
    first = open_storage(made).get_trials()[0]
    assert first.state.name == "COMPLETE" and first.params["training.optimizer.learning_rate"] == rate
    assert len(open_storage(made).get_trials()) == 3


def test_the_storage_may_be_a_database(plan, tmp_path):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    made = plan(axes=None, search={"space": SPACE, "trials": 1, "storage": url}, seeds=1)
    assert open_storage(made).study_name == open_storage(made).study_name == "small"
    assert (tmp_path / "shared.db").is_file()


def test_machines_may_make_the_tables_at_the_same_time(plan, tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    made = plan(axes=None, search={"space": SPACE, "trials": 1, "storage": url}, seeds=1)
    import optuna
    from sqlalchemy.exc import OperationalError

    make, refusals = optuna.create_study, iter([OperationalError("", {}, Exception("table studies already exists"))])

    def refused_once(**given):
        for error in refusals:
            raise error
        return make(**given)

    monkeypatch.setattr(optuna, "create_study", refused_once)
    assert open_storage(made).study_name == "small"


def test_a_database_that_is_not_there_is_told_without_a_trace(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "MAX_ATTEMPTS", 2)
    url = f"sqlite:///{tmp_path / 'no' / 'such' / 'folder' / 'shared.db'}"
    made = plan(axes=None, search={"space": SPACE, "trials": 1, "storage": url}, seeds=1)
    with pytest.raises(KitError, match=r"search\.storage cannot be opened: .*unable to open"):
        open_storage(made)


def test_a_trial_that_cannot_be_is_told_as_failed_and_the_rest_runs(here):
    """Two heads do not fit into a width of 7, which the recipe refuses before anything is built."""
    made = here(search={"space": {"model.width": {"choices": [7]}}, "trials": 2})
    said: list[str] = []
    assert search(made, say=said.append) == 2
    assert all("FAILED" in line and "7" in line for line in said) and len(said) == 2
    kept = open_storage(made).get_trials()
    assert [trial.state.name for trial in kept] == ["FAIL", "FAIL"]
    assert all("7" in trial.user_attrs[TROUBLE] for trial in kept)
    assert search(made) == 0  # nothing is left, and nothing is taken up again
    assert all_trials(made) == []
    show(report(made), screen())


def test_trials_that_cannot_be_leave_those_that_can(here):
    made = here(search={"space": {"model.width": {"choices": [7, 8]}}, "trials": 6})
    failed = search(made)
    assert 0 < failed < 6
    (outcome,) = report(made).outcomes
    assert len(outcome.rows) == 6 - failed and all("width 8" in row.label for row in outcome.rows)


def test_a_trial_that_was_killed_before_anybody_held_it_is_taken_up(made, monkeypatch):
    monkeypatch.setattr(trials, "ABANDONED_AFTER", 0.2)
    open_storage(made).ask()
    assert search(made) == 0
    assert [trial.state.name for trial in open_storage(made).get_trials()] == ["COMPLETE"] * 3


def test_a_trial_that_was_cut_short_between_its_values_goes_on(here):
    whole, parts = here(name="whole"), here(name="parts")
    search(whole)
    first = open_storage(whole).get_trials()[0].params
    found, rate = trials.Trials(parts), next(iter(SPACE))
    trial = found.study.ask()
    trial.set_user_attr(HOLDER, f"{socket.gethostname()} 999999999")
    found.section = found.section.model_copy(update={"space": {rate: found.section.space[rate]}})
    found.propose(trial)
    assert all_trials(parts) == []
    search(parts)
    assert open_storage(parts).get_trials()[0].params == first


def test_a_process_whose_number_is_used_again_is_gone():
    from kit_study.process_ids import has_ended, process_id

    host, number, _began = process_id().split()
    assert not has_ended(process_id())
    assert has_ended(f"{host} {number} 1") and has_ended(f"{host} 999999999 1")
    assert not has_ended("another-machine 999999999 1")


def test_jobs_are_trials_at_a_time(here):
    made = here()
    assert search(made, jobs=2) == 0
    assert here.counts == [2, 1]
    assert [trial.state.name for trial in open_storage(made).get_trials()] == ["COMPLETE"] * 3


def test_processes_share_one_search_and_each_shows_all_trials(write, kit, tmp_path):
    """As two machines would: one database, and a folder for each."""
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    path = write(axes=None, search={"space": SPACE, "trials": 4, "storage": url}, seeds=1)
    command = [sys.executable, "-m", "kit", "study", str(path), "--folder"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    both = [
        subprocess.Popen(
            [*command, str(tmp_path / name)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ("one", "two")
    ]
    said = [process.communicate(timeout=500)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    cells = {name: len(list((tmp_path / name).rglob("result.json"))) for name in ("one", "two")}
    assert sum(cells.values()) == 4, cells  # no trial was run twice
    from kit_study.study_file import read_study

    shown = [report(Plan(read_study(path, kit.registry), kit, tmp_path / name)) for name in ("one", "two", "neither")]
    assert all(found.complete and len(found.outcomes[0].rows) == 4 for found in shown)
    one, two, neither = ([row.values for row in found.outcomes[0].rows] for found in shown)
    assert one == two == neither and all(value for value in one)
    assert json.dumps(shown[2].as_data())
