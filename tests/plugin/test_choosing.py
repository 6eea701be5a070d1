"""Leaving plugins out, by the environment or by an argument."""

import sys

import pytest

from kit.errors import PartNotFound


@pytest.fixture
def two(world, source):
    world.install("kit-one", source.part("round") + source.listing("Round"), entry="shapes")
    world.install("kit-two", source.part("lamp") + source.listing("Lamp"), entry="lights")
    return world


def message(kit, name):
    with pytest.raises(PartNotFound) as caught:
        kit.registry.find("widget", name)
    assert caught.value.exit_code == 4
    return str(caught.value)


@pytest.mark.parametrize("name", ["lights", "kit-two", "KIT_TWO", "kit-two:lights"])
def test_a_disabled_plugin_does_not_run(two, monkeypatch, name):
    monkeypatch.setenv("KIT_DISABLE_PLUGINS", f" {name} ,")
    kit = two.kit()
    assert kit.registry.names("widget") == ["round"]
    assert "kit_two" not in sys.modules
    assert [(plugin.name, plugin.status, plugin.error) for plugin in kit.plugins] == [
        ("shapes", "loaded", None),
        ("lights", "disabled", "disabled by KIT_DISABLE_PLUGINS"),
    ]


def test_a_recipe_that_needs_a_disabled_plugin(two, monkeypatch):
    monkeypatch.setenv("KIT_DISABLE_PLUGINS", "lights")
    kit = two.kit()
    assert message(kit, "lamp") == (
        "no widget is called 'lamp'\n"
        "    installed: round\n"
        "    disabled by KIT_DISABLE_PLUGINS, and may bring it: kit-two 1.2 (plugin lights)"
    )
    assert message(kit, "kit-two/lamp") == (
        "the widget 'lamp' would come from kit-two 1.2 (plugin lights), which is disabled by KIT_DISABLE_PLUGINS"
    )


def test_no_plugin(two):
    assert "disabled by --no-plugin, and may bring it: kit-two 1.2" in message(two.kit(disable=["lights"]), "lamp")


def test_only_these(two, monkeypatch):
    monkeypatch.setenv("KIT_PLUGINS", "shapes")
    kit = two.kit()
    assert kit.registry.names("widget") == ["round"]
    assert message(kit, "lamp").endswith("\n    left out by KIT_PLUGINS, and may bring it: kit-two 1.2 (plugin lights)")
    assert [plugin.status for plugin in two.kit(disable=["shapes"]).plugins] == ["disabled", "disabled"]


def test_an_empty_setting_is_no_setting(two, monkeypatch):
    monkeypatch.setenv("KIT_PLUGINS", "")
    assert two.kit().registry.names("widget") == ["lamp", "round"]


@pytest.mark.parametrize("variable", ["KIT_DISABLE_PLUGINS", "KIT_PLUGINS"])
def test_a_plugin_that_is_not_there(two, monkeypatch, variable):
    monkeypatch.setenv(variable, "shpaes")
    with pytest.raises(PartNotFound) as caught:
        _ = two.kit().plugins
    assert str(caught.value) == (
        f"{variable} names the plugin 'shpaes', and no plugin or distribution of that name is installed\n"
        "    did you mean shapes?\n"
        "    installed: kit-one, kit-two, lights, shapes"
    )
    assert caught.value.exit_code == 4


def test_a_given_plugin_is_kept_by_only_and_can_be_disabled(two, source):
    two.install("kit-third", source.part("oval") + source.listing("Oval"))
    import kit_third

    points = two.kit(only=["shapes"], disable=["third"]).plugins
    assert [plugin.name for plugin in points if plugin.status == "loaded"] == ["shapes"]
    from kit import Kit

    kit = Kit(plugins=[kit_third], entry_points=[])
    assert kit.registry.find("widget", "kit_third/oval").distribution == "kit_third"
    assert Kit(plugins=[kit_third], entry_points=[], disable=["kit_third"]).plugins[0].status == "disabled"


def test_two_kits_do_not_share_plugins(two):
    assert two.kit(disable=["lights"]).registry.names("widget") == ["round"]
    assert two.kit().registry.names("widget") == ["lamp", "round"]
