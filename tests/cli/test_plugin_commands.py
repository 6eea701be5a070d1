"""Commands that plugins add: found when they are typed, and a broken one does not take the others with it."""

from __future__ import annotations

import types
from typing import Any

import pytest

from kit import Kit, hookimpl
from kit.cli.main import _plugin_commands


def plugin(name: str, **hooks: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.kit_api = 1  # type: ignore[attr-defined]
    for hook, function in hooks.items():
        setattr(module, hook, hookimpl(function))
    return module


def greeting(app: Any) -> None:
    @app.command()
    def greet() -> None:
        """Say hello."""
        print("hello")


def failing(app: Any) -> None:
    raise RuntimeError("no commands today")


def test_a_plugin_adds_a_command() -> None:
    commands = _plugin_commands(Kit(plugins=[plugin("greeter", kit_commands=greeting)], entry_points=[]))
    assert list(commands) == ["greet"]


def test_a_plugin_whose_hook_fails_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    kit = Kit(plugins=[plugin("broken", kit_commands=failing)], entry_points=[])
    assert _plugin_commands(kit) == {}
    told = capsys.readouterr().err
    assert "broken" in told
    assert "no commands today" in told
