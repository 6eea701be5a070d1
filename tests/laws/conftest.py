"""Says at the end how many parts, laws and checks ran; with pytest-xdist too, since it reads reports."""

from __future__ import annotations

from typing import Any

import pytest

CHECKED = "checked"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for key in ("passed", "failed") for report in terminalreporter.stats.get(key, [])]
    found = [dict(report.user_properties).get(CHECKED) for report in reports if report.when == "call"]
    checks = [each for each in found if each is not None]
    if checks:
        parts, laws = {part for part, _, _ in checks}, {law for _, law, _ in checks}
        total = sum(count for _, _, count in checks)
        terminalreporter.write_line(f"laws: {len(parts)} parts, {len(laws)} laws, {total} checks")


@pytest.fixture(scope="session")
def kit() -> Any:
    from kit import Kit

    return Kit()
