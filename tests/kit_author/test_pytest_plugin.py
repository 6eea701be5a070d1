"""`pytest -p kit.laws --kit-plugin PACKAGE` collects the laws of a package as tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kit.laws import pytest_plugin as collecting

THIRD_PARTY = Path(__file__).parents[1] / "third_party"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "kit.laws", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(THIRD_PARTY / "broken")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_law_is_a_test(tmp_path: Path) -> None:
    sample = str(THIRD_PARTY / "kit-sample-distance")
    done = run(tmp_path, "-v", "--kit-plugin", sample, "--kit-quick", "-k", "mask and (shape or invalid_options)")
    assert done.returncode == 0, done.stdout
    for law in ("declared_shape", "invalid_options"):
        assert re.search(rf"laws::mask-nearby::.*{law} PASSED", done.stdout), done.stdout
    assert "collected 34 items / 32 deselected / 2 selected" in done.stdout
    assert "fading" not in done.stdout


def test_a_broken_law_and_a_broken_plugin_fail_with_their_reasons(tmp_path: Path) -> None:
    packages = ["--kit-plugin", "kit_broken_wrong_shape", "--kit-plugin", "kit_broken_import"]
    done = run(tmp_path, *packages, "--kit-quick", "-k", "attention.shape or loads")
    assert done.returncode == 1
    assert "gives [1, 1, 15], wanted [1, 1, 16]" in done.stdout
    assert "No module named 'a_package_that_nobody_installed'" in done.stdout
    assert "2 failed" in done.stdout


def test_a_package_that_is_not_there_is_a_mistake_of_the_command() -> None:
    with pytest.raises(pytest.UsageError, match="no plugin, distribution, module or folder is called 'kit-no-such-"):
        collecting.find_or_usage_error("kit-no-such-thing")
