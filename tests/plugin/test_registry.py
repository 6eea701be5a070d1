"""How a part is found by its kind and name, and what a person reads when it is not."""

import pytest

from kit.errors import PartNotFound, PluginError


@pytest.fixture
def registry(world, source):
    world.install(
        "kit-one",
        source.part("round", default=True)
        + source.part("square")
        + source.part("lamp", kind="Gadget")
        + source.listing("Round", "Square", "Lamp"),
    )
    return world.kit().registry


def message(registry, kind, name):
    with pytest.raises(PartNotFound) as caught:
        registry.find(kind, name)
    assert caught.value.exit_code == 4
    return str(caught.value)


def test_plain_and_scoped_names(registry):
    part = registry.find("widget", "square")
    assert (part.kind, part.name, part.distribution, part.version, part.plugin) == (
        "widget",
        "square",
        "kit-one",
        "1.2",
        "one",
    )
    assert part.scoped == "kit-one/square"
    assert registry.find("widget", "kit-one/square") is part
    assert registry.find("widget", "Kit_One/square") is part
    assert registry.names("widget") == ["round", "square"]
    assert [part.name for part in registry.components("gadget")] == ["lamp"]


def test_kinds_come_from_contracts_of_the_kit_and_of_strangers(registry):
    assert {"attention", "mask", "norm", "position", "widget", "gadget"} <= set(registry.kinds())
    assert registry.names("attention") == []


def test_a_near_name(registry):
    assert message(registry, "widget", "squre") == (
        "no widget is called 'squre'\n    did you mean square?\n    installed: round, square"
    )


def test_a_name_of_another_kind(registry):
    assert message(registry, "widget", "lamp") == (
        "no widget is called 'lamp'\n    lamp is a gadget\n    installed: round, square"
    )


def test_an_unknown_kind(registry):
    text = message(registry, "atention", "round")
    assert text.startswith(
        "there is no kind of part called 'atention'\n    did you mean attention?\n    the kinds are "
    )


def test_an_unknown_distribution(registry):
    assert message(registry, "widget", "kit-oen/round") == (
        "no widget is called 'kit-oen/round'\n"
        "    no distribution called 'kit-oen' with plugins is installed\n"
        "    did you mean kit-one?\n"
        "    did you mean round?\n"
        "    installed: round, square"
    )


def test_a_long_list_is_not_printed(world, source):
    names = [f"part{number}" for number in range(30)]
    world.install("kit-many", "".join(map(source.part, names)) + source.listing(*(name.title() for name in names)))
    assert message(world.kit().registry, "widget", "zzz") == (
        "no widget is called 'zzz'\n    kit list widget shows all 30"
    )


def test_one_name_in_two_distributions(world, source):
    world.install("kit-one", source.part("round") + source.part("square") + source.listing("Round", "Square"))
    world.install("kit-two", source.part("round") + source.listing("Round"), version="0.3")
    registry = world.kit().registry
    with pytest.raises(PluginError) as caught:
        registry.find("widget", "round")
    assert str(caught.value) == (
        "2 distributions bring a widget called 'round': kit-one 1.2 and kit-two 0.3\n"
        "    type kit-one/round or kit-two/round"
    )
    assert registry.find("widget", "kit-two/round").version == "0.3"
    assert registry.find("widget", "square").distribution == "kit-one"
    assert registry.names("widget") == ["kit-one/round", "kit-two/round", "square"]


def test_one_name_twice_in_one_distribution(world, source):
    world.install("kit-one", source.part("round") + source.listing("Round"))
    (world.folder / "kit_extra.py").write_text((world.folder / "kit_one.py").read_text())
    (world.folder / "kit_one-1.2.dist-info" / "entry_points.txt").write_text(
        "[kit.plugins]\none = kit_one\nextra = kit_extra\n"
    )
    with pytest.raises(PluginError) as caught:
        world.kit().registry.find("widget", "kit-one/round")
    assert str(caught.value) == (
        "2 parts of one distribution are the widget 'round': kit_extra.Round and kit_one.Round\n"
        "    one needs another name"
    )


def test_defaults(world, source, registry):
    assert registry.default("widget").name == "round"
    assert registry.default("gadget") is None
    world.install("kit-two", source.part("oval", default=True) + source.listing("Oval"))
    with pytest.raises(PluginError) as caught:
        world.kit().registry.default("widget")
    assert str(caught.value) == (
        "more than one widget says that it is the default: oval (kit-two 1.2) and round (kit-one 1.2)\n"
        "    name the one you want in the recipe: widget: oval"
    )


def test_the_part_of_options(registry):
    from kit import Options

    part = registry.find("widget", "square")
    bound = type("Bound", (part.component.options_type,), {})
    assert registry.part_for_options(bound) is part
    stranger = type("Stranger", (Options,), {"__module__": "far.away"})
    with pytest.raises(PartNotFound) as caught:
        registry.part_for_options(stranger)
    assert str(caught.value).startswith("far.away.Stranger are not the options of any part of this kit")
