"""A plugin that cannot be loaded is named with its cause, and harms no other."""

import pytest

from kit.errors import KitError, PartNotFound, PluginError


def broken(kit):
    (plugin,) = [plugin for plugin in kit.plugins if plugin.status == "failed"]
    return plugin


@pytest.fixture
def healthy(world, source):
    world.install("kit-healthy", source.part("round") + source.listing("Round"))
    return world


@pytest.mark.parametrize(
    ("text", "cause", "line"),
    [
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'", 1),
        ("\nraise ValueError('no good')", "ValueError: no good", 2),
        ("x = 1\n\nimport sys; sys.exit(7)", "SystemExit: 7", 3),
        ("\n\ndef (", "SyntaxError: invalid syntax", 3),
    ],
)
def test_an_import_that_raises(healthy, text, cause, line):
    path = healthy.install("kit-broken", text, header=False)
    kit = healthy.kit()
    assert broken(kit).distribution == "kit-broken"
    assert broken(kit).error == f"{cause} ({path}:{line})"
    assert kit.registry.find("widget", "round").origin == "kit-healthy 1.2"


def test_a_missing_module_is_named(healthy):
    healthy.record("kit-ghost", "kit_ghost_that_is_gone", "2.0", "ghost")
    assert broken(healthy.kit()).error == "ModuleNotFoundError: No module named 'kit_ghost_that_is_gone'"


def test_a_person_can_still_interrupt(healthy):
    healthy.install("kit-broken", "raise KeyboardInterrupt", header=False)
    with pytest.raises(KeyboardInterrupt):
        _ = healthy.kit().plugins


def test_a_listing_that_raises(healthy):
    path = healthy.install("kit-broken", "@hookimpl\ndef kit_components():\n    import nowhere\n")
    kit = healthy.kit()
    assert broken(kit).error == f"ModuleNotFoundError: No module named 'nowhere' ({path}:7)"
    assert kit.registry.names("widget") == ["round"]


def test_hooks_of_a_plugin_with_a_bad_listing_are_not_called(world):
    world.install(
        "kit-broken",
        "heard = []\n@hookimpl\ndef kit_components():\n    return 5\n"
        "@hookimpl\ndef kit_callbacks(recipe):\n    heard.append(recipe)\n",
    )
    kit = world.kit()
    _ = kit.plugins
    kit.hooks.kit_callbacks(recipe="r")
    import kit_broken

    assert kit_broken.heard == []


def test_a_recipe_that_needs_a_part_of_it_hears_the_cause(healthy):
    path = healthy.install("kit-broken", "import nowhere", header=False)
    registry = healthy.kit().registry
    cause = f"kit-broken 1.2 (plugin broken) failed to load: ModuleNotFoundError: No module named 'nowhere' ({path}:1)"
    with pytest.raises(PartNotFound) as plain:
        registry.find("widget", "square")
    assert str(plain.value) == (
        f"no widget is called 'square'\n    installed: round\n    {cause}; it may be the one that brings it"
    )
    with pytest.raises(PluginError) as scoped:
        registry.find("widget", "kit-broken/square")
    assert str(scoped.value) == f"the widget 'square' would come from {cause.replace(' failed', ', which failed')}"
    assert scoped.value.exit_code == 3


def test_a_part_whose_plugin_is_known_to_be_broken_blames_it_alone(healthy, source):
    healthy.install("kit-broken", source.part("square") + source.listing("Square", "print"))
    with pytest.raises(PluginError) as caught:
        healthy.kit().registry.find("widget", "square")
    assert str(caught.value) == (
        "the widget 'square' would come from kit-broken 1.2 (plugin broken), which failed to load: kit_components "
        "returned <built-in function print>, which is no component; wanted classes derived from a contract"
    )


def test_a_plugin_reached_twice_is_one(world, source, tmp_path):
    world.install("kit-healthy", source.part("round") + source.listing("Round"))
    world.record("Kit_Healthy", "kit_healthy", "1.1", "healthy")  # what a stale install leaves behind
    world.record("kit-alias", "kit_healthy", "3.0", "other")
    kit = world.kit()
    assert len(kit.plugins) == 1
    assert kit.registry.names("widget") == ["round"]


def test_a_plugin_given_directly_and_installed_is_one(world, source):
    world.install("kit-healthy", source.part("round") + source.listing("Round"))
    import kit_healthy

    kit = world.kit(plugins=[kit_healthy])
    assert [plugin.title for plugin in kit.plugins] == ["kit-healthy 1.2 (plugin healthy)"]


def test_two_distributions_with_one_entry_point_name_both_load(world, source):
    world.install("kit-one", source.part("round") + source.listing("Round"), entry="shapes")
    world.install("kit-two", source.part("square") + source.listing("Square"), entry="shapes")
    assert world.kit().registry.names("widget") == ["round", "square"]


def test_an_error_inside_a_hook_names_the_plugin(world):
    path = world.install("kit-loud", "@hookimpl\ndef kit_callbacks(recipe):\n    1 / 0\n")
    with pytest.raises(PluginError) as caught:
        world.kit().hooks.kit_callbacks(recipe=None)
    assert str(caught.value) == (
        f"kit-loud 1.2 (plugin loud) failed in its hook kit_callbacks: ZeroDivisionError: division by zero ({path}:7)"
    )


def test_a_refusal_by_a_hook_arrives_as_it_is(world):
    world.install(
        "kit-strict",
        "from kit import KitError\n@hookimpl\ndef kit_callbacks(recipe):\n    raise KitError('too wide')\n",
    )
    with pytest.raises(KitError, match=r"^too wide$"):
        world.kit().hooks.kit_callbacks(recipe=None)
