"""Runs to look into, made once; no test sees another's cache."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest

from kit import Inspector, LoadedRun, inspect, load_run
from kit.runs.run_directory import RunDirectory
from runs import few_step_runs, tiny_runs


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunDirectory]:
    """The run of a recipe, trained when it is first asked for."""
    found: dict[str, RunDirectory] = {}

    def make(recipe: str) -> RunDirectory:
        if recipe not in found:
            with tiny_runs.alone(tmp_path_factory.mktemp("run")):
                found[recipe] = RunDirectory(few_step_runs.trained(recipe).path.resolve())
        return found[recipe]

    return make


@pytest.fixture(scope="session")
def opened_runs(made_runs: Callable[[str], RunDirectory]) -> Callable[[str], Inspector]:
    """The run of a recipe, opened once; each time with a model of its own, to do with as one likes."""
    found: dict[str, LoadedRun] = {}

    def look(recipe: str) -> Inspector:
        if recipe not in found:
            found[recipe] = load_run(made_runs(recipe), few_step_runs.KIT)
        return inspect(replace(found[recipe], model=copy.deepcopy(found[recipe].model)))

    return look


@pytest.fixture
def pairs(opened_runs: Callable[[str], Inspector]) -> Inspector:
    return opened_runs(few_step_runs.PAIRS)


@pytest.fixture
def text(opened_runs: Callable[[str], Inspector]) -> Inspector:
    return opened_runs(few_step_runs.TEXT)


@pytest.fixture
def classes(opened_runs: Callable[[str], Inspector]) -> Inspector:
    return opened_runs(few_step_runs.CLASSES)


@pytest.fixture
def prefixed(opened_runs: Callable[[str], Inspector]) -> Inspector:
    return opened_runs(few_step_runs.PREFIXED)
