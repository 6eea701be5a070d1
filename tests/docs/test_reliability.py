"""Every promise of docs/reliability.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| (?!promise|-)(.+?) \| (.+) \|$", (ROOT / "docs" / "reliability.md").read_text(), re.MULTILINE)


def test_there_are_promises() -> None:
    assert len(ROWS) > 10


@pytest.mark.parametrize(("promise", "tests"), ROWS, ids=[promise[:40] for promise, _ in ROWS])
def test_a_promise_names_its_tests(promise: str, tests: str) -> None:
    files = re.findall(r"`(tests/[^`]+)`", tests)
    assert files and all("def test_" in (ROOT / file).read_text() for file in files)
