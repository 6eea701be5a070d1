"""What every test shares: the loaded plugins, the compiled C++, the order of tests, and which ones are quick."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from session import quick
from session.compiled_kernels import compile_kernels

TESTS = Path(__file__).parent
WITHOUT_CPP = frozenset({"test_layers.py", "test_public_names.py", "test_hooks.py", "recipe", "plugin", "data"})
"""Folders and files none of whose tests trains or decodes; all others find the C++ compiled."""

for variable in ("KIT_PLUGINS", "KIT_DISABLE_PLUGINS"):
    os.environ.pop(variable, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="layers, recipes, plugin loading and what the change touches")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        os.environ["KIT_NATIVE"] = "0"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("--quick") and TESTS in collection_path.parents and not quick.is_taken(collection_path):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that have to run one after another come first, so that none runs alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
    if config.getoption("--quick"):
        items.sort(key=lambda item: not quick.comes_first(item.path))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.config.getoption("--quick") and quick.is_too_late() and not quick.comes_first(item.path):
        pytest.skip(f"not within {quick.SECONDS:.0f} s")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("--quick"):
        late = sum("not within" in str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
        folders = f" and tests/{{{','.join(quick.left_out())}}}" if quick.left_out() else ""
        terminalreporter.write_line(f"quick: left out for time {late} tests{folders}; make test runs all")


@pytest.fixture(scope="session", autouse=True)
def _compiled_kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The C++, compiled before the first test that trains is timed; with pytest-xdist by one process."""
    if any(item.path.relative_to(TESTS).parts[0] not in WITHOUT_CPP for item in request.session.items):
        folder = tmp_path_factory.getbasetemp()
        shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
        compile_kernels(shared / "compiled.lock")


@pytest.fixture(autouse=True)
def _no_plugin_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KIT_PLUGINS", raising=False)
    monkeypatch.delenv("KIT_DISABLE_PLUGINS", raising=False)


@pytest.fixture(autouse=True)
def _small_numbers() -> None:
    """A training in this process flushes denormals for good, which others do not expect."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)
