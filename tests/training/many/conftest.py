"""A place to run commands in, and the runs that several tests look at, made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from processes.training_processes import Place


def _place(folder: Path) -> Iterator[Place]:
    place = Place(folder)
    yield place
    for command in place.commands:
        command.kill_all()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    yield from _place(tmp_path / "place")


@pytest.fixture(scope="session")
def references(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Where the runs below are; nothing else is run there."""
    yield from _place(tmp_path_factory.mktemp("references"))


@pytest.fixture(scope="session")
def alone(references: Place) -> Path:
    """Fifty steps in one process."""
    return references.run("train", "tiny.yaml")


@pytest.fixture(scope="session")
def ddp(references: Place) -> Path:
    """The same in two processes that hold the whole model each."""
    return references.run("train", "tiny.yaml", "training.devices=2", "training.strategy=ddp")


@pytest.fixture(scope="session")
def fsdp(references: Place) -> Path:
    """The same in two processes that hold half of it each."""
    return references.run("train", "tiny.yaml", "training.devices=2", "training.strategy=fsdp")
