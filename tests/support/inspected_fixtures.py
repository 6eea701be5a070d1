"""Runs to look into, made once; no test sees another's cache."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import inspected_runs
import pytest
import torch

from kit import Inspector, OpenedRun, inspect, open_run
from kit.runs.directory import RunDirectory


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunDirectory]:
    """The run of a recipe, trained when it is first asked for."""
    found: dict[str, RunDirectory] = {}

    def make(recipe: str) -> RunDirectory:
        if recipe not in found:
            with pytest.MonkeyPatch.context() as patch:
                folder = tmp_path_factory.mktemp("run")
                patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
                patch.chdir(folder)
                patch.setattr("kit.training.finishing.plot_losses", lambda run: run.reports)
                found[recipe] = RunDirectory(inspected_runs.trained(recipe).path.resolve())
        return found[recipe]

    return make


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def opened_runs(made_runs: Callable[[str], RunDirectory]) -> Callable[[str], Inspector]:
    """The run of a recipe, opened once; each time with a model of its own, to do with as one likes."""
    found: dict[str, OpenedRun] = {}

    def look(recipe: str) -> Inspector:
        if recipe not in found:
            found[recipe] = open_run(made_runs(recipe), inspected_runs.KIT)
        return inspect(replace(found[recipe], model=copy.deepcopy(found[recipe].model)))

    return look


@pytest.fixture
def pairs(opened_runs: Callable[[str], Inspector]) -> Inspector:
    return opened_runs(inspected_runs.PAIRS)


@pytest.fixture
def text(opened_runs: Callable[[str], Inspector]) -> Inspector:
    return opened_runs(inspected_runs.TEXT)


@pytest.fixture
def classes(opened_runs: Callable[[str], Inspector]) -> Inspector:
    return opened_runs(inspected_runs.CLASSES)


@pytest.fixture
def prefixed(opened_runs: Callable[[str], Inspector]) -> Inspector:
    return opened_runs(inspected_runs.PREFIXED)
