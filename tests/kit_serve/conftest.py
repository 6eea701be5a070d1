"""One tiny run that is trained once, and the browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages.browser import browser as browser
from runs import tiny_runs


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that copies texts, more or less."""
    return tiny_runs.trained(tiny_runs.PAIRS, tmp_path_factory.mktemp("served"), "training.metrics=[exact]").path
