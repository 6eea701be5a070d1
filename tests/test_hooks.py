"""Every hook is documented with its arguments, and has a test here that carries its name."""

import inspect

import pytest

from kit import Kit, hookspecs
from kit.hookspecs import hookimpl

HOOKS = {name: item for name, item in vars(hookspecs).items() if hasattr(item, "kit_spec")}


class Listener:
    """A plugin that implements every hook."""

    kit_api = 1

    @hookimpl
    def kit_components(self):
        from kit import Component, Options

        options = type("EchoOptions", (Options,), {"__annotations__": {"use": _literal("echo")}, "use": "echo"})
        return [type("Echo", (Component,), {"kind": "sound", "options_type": options})]

    @hookimpl
    def kit_callbacks(self, recipe):
        return [f"callback for {recipe}"]

    @hookimpl
    def kit_commands(self, app):
        app.append("command")

    @hookimpl
    def kit_attention_page(self, run):
        return lambda text, target: (f"{run} {text} {target}", "default-src 'none'")


def _literal(name):
    from typing import Literal

    return Literal[name]


@pytest.fixture
def kit():
    return Kit(plugins=[Listener()], entry_points=[])


def test_there_are_hooks():
    assert "kit_components" in HOOKS


@pytest.mark.parametrize("name", HOOKS)
def test_is_documented(name):
    documentation = inspect.getdoc(HOOKS[name]) or ""
    assert documentation.endswith("."), "a hook says in sentences when it is called"
    for argument in inspect.signature(HOOKS[name]).parameters:
        assert f"{argument}: " in documentation, f"the documentation of {name} does not explain {argument}"


@pytest.mark.parametrize("name", HOOKS)
def test_is_tested(name):
    assert f"test_{name}" in globals(), f"write test_{name} in {__file__}"
    assert hasattr(Listener, name)


def test_kit_components(kit):
    assert kit.registry.names("sound") == ["echo"]


def test_kit_callbacks(kit):
    assert kit.hooks.kit_callbacks(recipe="r") == [["callback for r"]]


def test_kit_commands(kit):
    app: list[str] = []
    kit.hooks.kit_commands(app=app)
    assert app == ["command"]


def test_kit_attention_page(kit):
    render = kit.hooks.kit_attention_page(run="r")
    assert render("a", None) == ("r a None", "default-src 'none'")
    assert Kit(plugins=[Other()], entry_points=[]).hooks.kit_attention_page(run="r") is None


class Other:
    """A plugin that draws nothing."""

    kit_api = 1

    @hookimpl
    def kit_commands(self, app):
        pass
