"""`kit plugin check` names the law that a broken package breaks; a good one passes."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from models.part_packages import COSTLY
from typer.testing import CliRunner

from kit import Kit
from kit.cli.main import app
from kit.laws import LAWS, find_package
from kit_author.examination import MANY_DEVICES, Extent, PackageReport, examine

THIRD_PARTY = Path(__file__).parents[1] / "third_party"
SAMPLE = THIRD_PARTY / "kit-sample-distance"
FOLDER = THIRD_PARTY / "broken"
BROKEN = sorted(path.stem for path in FOLDER.glob("*.py"))
QUICK = frozenset(title for title, law in LAWS.items() if law.name not in COSTLY)
KIT = Kit()


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in BROKEN:
        sys.modules.pop(name, None)


def wrong(name: str) -> str:
    """What a package says is wrong with it."""
    for node in ast.parse((FOLDER / f"{name}.py").read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "BREAKS":
            return str(ast.literal_eval(node.value))
    raise AssertionError(name)


def broken_laws(report: PackageReport) -> list[str]:
    return [verdict.law.title for part in report.parts for verdict in (part.laws.failures if part.laws else ())]


def test_there_are_enough_of_them() -> None:
    faults = {wrong(name) for name in BROKEN}
    assert len(BROKEN) >= 12 and len(faults) == len(BROKEN), "each is wrong in a way of its own"
    assert faults - {"import"} <= set(LAWS)


@pytest.mark.parametrize("name", [name for name in BROKEN if wrong(name) != "import"])
def test_the_right_law_is_named(name: str) -> None:
    """Among all laws that are quick to try, and the one that it breaks."""
    law = wrong(name)
    extent = Extent(quick=True, titles=QUICK | {law})
    report = examine(find_package(name, KIT), extent=extent, timed=False)
    assert not report.passed
    assert law in broken_laws(report)
    (part,) = report.parts
    assert part.laws is not None
    (verdict,) = [each for each in part.laws.failures if each.law.title == law]
    assert verdict.message, "it says what was tried, what came out and what was wanted"
    assert (law in MANY_DEVICES) == any(each.law.title == law for each, _ in part.many_devices)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BROKEN if wrong(name) != "import"])
def test_a_full_check_names_it_too(name: str) -> None:
    """With every law and every set of options; a fault such as a NaN breaks others besides."""
    assert wrong(name) in broken_laws(examine(find_package(name, KIT), timed=False))


@pytest.mark.parametrize(
    "name", ["hidden_state", "lies_about_cost", "unregistered_buffer", "unused_parameter", "wrong_shape"]
)
def test_a_fault_of_one_kind_breaks_one_law(name: str) -> None:
    report = examine(find_package(f"kit_broken_{name}", KIT), extent=Extent(quick=True, titles=QUICK), timed=False)
    # What is not registered is not shared out among processes either.
    besides = ["part.tensor_parallel"] if name == "unregistered_buffer" else []
    assert broken_laws(report) == [wrong(f"kit_broken_{name}"), *besides]


def test_a_package_that_cannot_be_imported_is_named_with_its_cause() -> None:
    report = examine(find_package("kit_broken_import", KIT))
    assert not report.passed and report.parts == ()
    ((title, cause),) = report.failures.items()
    assert "kit_broken_import" in title
    assert "No module named 'a_package_that_nobody_installed'" in cause and "kit_broken_import.py:3" in cause
    result = CliRunner().invoke(app, ["plugin", "check", "kit_broken_import"])
    assert result.exit_code == 3 and "a_package_that_nobody_installed" in result.output


def test_a_good_package_passes_with_what_it_could_claim_and_what_it_costs() -> None:
    result = CliRunner().invoke(app, ["plugin", "check", str(SAMPLE), "--json", "--quick"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["passed"] and found["package"] == "kit-sample-distance"
    mask, position = found["parts"]
    assert (mask["kind"], mask["name"], mask["broken"]) == ("mask", "nearby", [])
    assert {"name": "hides_future", "state": "claimed", "text": "yes"} in mask["claims"]
    (relative,) = [claim for claim in position["claims"] if claim["name"] == "relative"]
    assert relative["state"] == "could claim" and "relative = True" in relative["text"]
    assert [row["length"] for row in position["measurements"]] == [128, 512, 1024]
    baseline = KIT.registry.baseline("position")
    assert baseline is not None and all(row["baseline"] == baseline.name for row in position["measurements"])
    assert position["options"]["properties"]["rate"]["exclusiveMinimum"] == 0
    sys.modules.pop("kit_sample_distance", None)


def test_the_report_for_people_names_the_law_and_what_many_gpus_would_break() -> None:
    from kit_author.command import _print_report

    package = find_package("kit_broken_unused_parameter", KIT)
    report = examine(package, extent=Extent(quick=True, titles=frozenset({"part.gradients"})), timed=False)
    data = report.as_data()
    assert data["parts"][0]["many_devices"] == [{"law": "part.gradients", "effect": MANY_DEVICES["part.gradients"]}]
    import io
    from contextlib import redirect_stdout

    text = io.StringIO()
    with redirect_stdout(text):
        _print_report(report)
    assert "x part.gradients" in text.getvalue() and "gate.weight gets no gradient" in text.getvalue()
    assert "many GPUs" in text.getvalue() and "not in order" in text.getvalue()


def test_every_law_of_many_devices_is_a_law() -> None:
    assert set(MANY_DEVICES) <= set(LAWS)
