"""Runs of every kind, trained once for all tests here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from models.tiny_models import KIT
from runs import tiny_runs

import kit
from kit import Predictor

RECIPES = {
    "pairs": tiny_runs.PAIRS,
    "prefixed": tiny_runs.PREFIXED,
    "texts": tiny_runs.TEXTS,
    "masked": tiny_runs.MASKED,
    "classes": tiny_runs.CLASSES,
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def predictor(folder: Path) -> Callable[[str], Predictor]:
    """The predictor of a kind of model: `predictor("pairs")`."""
    made: dict[str, Predictor] = {}

    def of(name: str) -> Predictor:
        if name not in made:
            made[name] = kit.load(tiny_runs.trained(RECIPES[name], folder).path, KIT)
        return made[name]

    return of
