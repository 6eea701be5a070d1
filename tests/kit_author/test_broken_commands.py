"""A plugin whose commands cannot be added is named, by `kit plugin check` and when any other command is typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kit.cli.main import app

POSTPONED = '''\
from __future__ import annotations

from kit import hookimpl

kit_api = 1


@hookimpl
def kit_commands(app):
    import typer

    @app.command()
    def tear(context: typer.Context) -> None:
        """Tear."""
'''
"""The annotation is a string that is looked up in the module, which has no `typer`."""
SOUND = POSTPONED.replace("    import typer\n\n", "").replace("from kit", "import typer\nfrom kit", 1)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder with an installed package `kit-torn`, whose source a test writes."""
    info = tmp_path / "kit_torn-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kit-torn\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kit.plugins]\ntorn = kit_torn\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "kit_torn.py"
    sys.modules.pop("kit_torn", None)


@pytest.mark.parametrize("word", ["tear", "no-such-word"])
def test_an_unknown_word_names_the_plugin_and_is_no_traceback(site: Path, word: str) -> None:
    site.write_text(POSTPONED)
    told = CliRunner().invoke(app, [word])
    assert told.exit_code == 2 and isinstance(told.exception, SystemExit)
    assert "the commands of kit-torn 1.0 (plugin torn) cannot be added" in told.output
    assert "name 'typer' is not defined" in told.output and f"No such command '{word}'" in told.output


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        (POSTPONED, "name 'typer' is not defined"),
        (POSTPONED.replace("import typer", "import nowhere_to_be_found"), "nowhere_to_be_found"),
        (POSTPONED.replace("import typer", "raise SystemExit(9)"), "SystemExit: 9"),
    ],
    ids=["postponed-annotations", "raises", "exits"],
)
def test_a_check_adds_the_commands(site: Path, source: str, cause: str) -> None:
    site.write_text(source)
    told = CliRunner().invoke(app, ["plugin", "check", "kit-torn"])
    assert told.exit_code == 3
    assert "kit-torn 1.0 (plugin torn) cannot add its commands" in told.output and cause in told.output
    assert told.output.rstrip().endswith("not in order") and ", in order" not in told.output
    found = json.loads(CliRunner().invoke(app, ["plugin", "check", "kit-torn", "--json"]).stdout)
    assert not found["passed"] and cause in found["plugins"][0]["command_error"]


def test_sound_commands_are_in_order(site: Path) -> None:
    site.write_text(SOUND)
    told = CliRunner().invoke(app, ["plugin", "check", "kit-torn"])
    assert told.exit_code == 0 and told.output.rstrip().endswith("0 parts, in order")
