"""No law is empty: for each there is a part that is wrong in just that way, and the law finds it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from kit import Kit, laws
from kit.laws import LAWS, LawBroken, try_law
from kit.laws.reference_parts import REFERENCE_PARTS

KIT = Kit()


def _controls() -> list[Any]:
    found = []
    for path in sorted((Path(__file__).parent / "broken").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"broken_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        found += [each for each in vars(module).values() if isinstance(each, type) and getattr(each, "breaks", ())]
    return found


CONTROLS = _controls()
CASES = [
    pytest.param(control, title, id=f"{title}-{control.__name__}", marks=[pytest.mark.slow] if LAWS[title].slow else [])
    for control in CONTROLS
    for title in control.breaks
]
CRASHES = {"mask.missing_features", "part.meta_device"}
"""Laws whose breach is a crash, so that nothing is left to say."""


@pytest.mark.parametrize(("control", "title"), CASES)
def test_a_broken_part_fails_its_law(control: Any, title: str) -> None:
    verdict = try_law(LAWS[title], control, KIT)
    assert verdict.outcome == "failed", f"{control.__name__} keeps {title}: {verdict.message}"
    assert verdict.law.title == title
    assert isinstance(verdict.cause, LawBroken) or title in CRASHES, verdict.message


def test_every_law_has_a_control() -> None:
    broken = {title for control in CONTROLS for title in control.breaks}
    assert broken == set(LAWS)


@pytest.mark.parametrize("component", REFERENCE_PARTS, ids=lambda component: component.__name__)
def test_a_plain_part_keeps_all_laws(component: Any) -> None:
    """So that a control fails for what is wrong with it, and for nothing else."""
    report = laws.check(component, KIT)
    assert report.passed, str(report)


def test_a_report_is_a_table_with_a_line_a_law() -> None:
    control = next(each for each in CONTROLS if each.__name__ == "DividesByNothing")
    report = laws.check(control, KIT)
    assert [verdict.law.title for verdict in report.failures] == ["norm.numerical_range"]
    text = str(report)
    assert text.startswith("norm broken: ")
    assert "x norm.numerical_range" in text
    assert "+ norm.shape" in text
    assert len(text.splitlines()) >= len(report.verdicts) + 1
