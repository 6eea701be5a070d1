"""A newcomer reads from `kit train` to the first optimizer step in few files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "traces" / "files_to_the_first_step.py"
READERS_WAY = 25
"""The most files that lead from the command to the first step, or that `kit/training/train.py` calls into."""
ALL_FILES = 78
"""The most files of which any function is called before the first step ends."""


def test_the_first_step_is_reached_through_few_files(tmp_path: Path) -> None:
    # In a process of its own: what other tests have imported, built and cached would not be called again.
    found = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    *listed, summary = found.stdout.splitlines()
    on_the_way = [line.split()[-1] for line in listed if "*" in line]
    assert "kit/cli/train.py" in on_the_way and "kit/training/train.py" in on_the_way
    assert len(on_the_way) <= READERS_WAY, summary
    assert len(listed) <= ALL_FILES, summary
