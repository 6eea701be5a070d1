"""The public interface is what was recorded: a name that goes, or a parameter that changes, is a deliberate break."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import kit

GENERATOR = Path(__file__).parents[2] / "docs" / "generating" / "public_api.py"
RECORD = Path(__file__).parents[2] / "docs" / "reference" / "api.txt"
RENEW = "python docs/generating/public_api.py > docs/reference/api.txt"
public_api = runpy.run_path(str(GENERATOR))["public_api"]


def test_nothing_public_went_away_unannounced() -> None:
    gone = sorted(set(RECORD.read_text().splitlines()) - set(public_api()))
    assert not gone, f"a break of the public interface; if it is meant, say so in CHANGELOG.md and run {RENEW}: {gone}"


def test_everything_public_is_recorded() -> None:
    new = sorted(set(public_api()) - set(RECORD.read_text().splitlines()))
    assert not new, f"new in the public interface; run {RENEW}: {new}"


def test_a_change_of_a_parameter_is_seen() -> None:
    assert "class Attention" in public_api()
    assert "Attention.forward(self, x, memory, context, state=)" in public_api()
    assert "hook kit_callbacks(recipe)" in public_api()


def test_a_name_that_was_renamed_works_for_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kit._RENAMED, "Focus", ("Attention", "0.3.0"))
    with pytest.warns(DeprecationWarning, match=r"kit\.Focus is called kit\.Attention now, and 0\.3\.0 will not"):
        assert kit.Focus is kit.Attention  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        _ = kit.Fokus  # type: ignore[attr-defined]


def test_every_renamed_name_has_a_new_one_that_is_public() -> None:
    assert all(new in kit.__all__ and old not in kit.__all__ for old, (new, _) in kit._RENAMED.items())


def test_the_list_is_written_by_a_command() -> None:
    done = subprocess.run([sys.executable, str(GENERATOR)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == public_api()
