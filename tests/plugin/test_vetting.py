"""What is wrong with a plugin that imports well, in the words that a person reads."""

import pytest


def error_of(world, body, header=True):
    world.install("kit-sample", body, header=header)
    (plugin,) = world.kit().plugins
    assert plugin.status == "failed"
    return plugin.error


@pytest.mark.parametrize(
    ("declaration", "text"),
    [
        ("", "it does not say which API level it was written for; wanted: kit_api = 1 beside its hooks"),
        ("kit_api = 2", "it was written for API level 2 and this kit has level 1; a newer kitformer is needed"),
        ("kit_api = 0", "it was written for API level 0 and this kit has level 1; a newer one is needed"),
        ("kit_api = '1'", "kit_api is '1'; wanted a whole number, kit_api = 1"),
    ],
)
def test_api_level(world, declaration, text):
    body = f"from kit import hookimpl\n{declaration}\n@hookimpl\ndef kit_components():\n    return []\n"
    assert error_of(world, body, header=False) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("@hookimpl\ndef kit_componets(): ...", "kit_componets is no hook of the kit; did you mean kit_components?"),
        (
            "@hookimpl\ndef on_start(): ...",
            "on_start is no hook of the kit; the hooks are "
            "kit_attention_page, kit_callbacks, kit_commands, kit_components",
        ),
        (
            "def kit_components(): ...",
            "kit_components is not marked as a hook, so it is never called; write @hookimpl above def kit_components",
        ),
        (
            "def kit_component(): ...",
            "kit_component is not marked as a hook, so it is never called; write @hookimpl above def kit_components",
        ),
        (
            "@hookimpl\ndef kit_callbacks(net): ...",
            "kit_callbacks asks for the argument net, which this hook does not have; it has recipe",
        ),
        (
            "@hookimpl(wrapper=True)\ndef kit_components():\n    return (yield)",
            "kit_components is marked as a wrapper; wanted a function that returns this plugin's own parts",
        ),
        ("x = 1", "it implements no hook; wanted at least one function marked with @hookimpl, such as kit_components"),
    ],
)
def test_hooks(world, body, text):
    assert error_of(world, body) == text


def test_all_mistakes_are_told_at_once(world):
    error = error_of(world, "@hookimpl\ndef kit_componets(): ...\n@hookimpl\ndef kit_comands(app): ...\n")
    assert error == (
        "kit_comands is no hook of the kit; did you mean kit_commands?; "
        "kit_componets is no hook of the kit; did you mean kit_components?"
    )


def test_a_hook_for_a_later_kit_may_be_optional(world):
    world.install("kit-sample", "@hookimpl(optionalhook=True)\ndef kit_from_the_future(): ...\n")
    world.install("kit-typo", "@hookimpl\ndef kit_from_the_future(): ...\n")
    assert [plugin.status for plugin in world.kit().plugins] == ["loaded", "failed"]


def test_an_entry_point_at_a_class(world):
    world.install("kit-sample", "class Plugin:\n    kit_api = 1\n    @hookimpl\n    def kit_components(self): ...\n")
    world.record("kit-other", "kit_sample:Plugin", "1.0", "other")
    plugin = next(plugin for plugin in world.kit().plugins if plugin.name == "other")
    assert plugin.error == "its entry point is the class Plugin; wanted a module, or an instance of the class"


OPTIONS = 'class O(Options):\n    use: Literal["{0}"] = "{0}"\n'


@pytest.mark.parametrize(
    ("body", "listed", "text"),
    [
        ("", "", "kit_components returned None; wanted a list of classes"),
        ("", "'window'", "kit_components returned 'window'; wanted a list of classes"),
        ("", "Widget", "kit_components returned <class 'world_contracts.Widget'>; wanted a list of classes"),
        (
            "class Stranger: ...",
            "[Stranger]",
            "kit_components returned the class Stranger, which is no component; wanted classes derived from a contract",
        ),
        (
            "class Loose(Component): ...",
            "[Loose]",
            "Loose has the kind None; wanted a class derived from a contract, such as kit.Mask",
        ),
        (
            "class Bare(Widget): ...",
            "[Bare]",
            "Bare.options_type is None; wanted a class derived from kit.Options",
        ),
        (
            "class Odd(Widget):\n    options_type = dict",
            "[Odd]",
            "Odd.options_type is the class dict; wanted a class derived from kit.Options",
        ),
        (
            "class O(Options): ...\nclass Nameless(Widget):\n    options_type = O",
            "[Nameless]",
            'O gives Nameless no name; wanted: use: Literal["..."] = "..."',
        ),
        (
            'class O(Options):\n    use: Literal["a", "b"] = "a"\nclass Two(Widget):\n    options_type = O',
            "[Two]",
            'O gives Two no name; wanted: use: Literal["..."] = "..."',
        ),
        (
            OPTIONS.format("Big Name") + "class Big(Widget):\n    options_type = O",
            "[Big]",
            "Big is called 'Big Name'; wanted a small letter followed by small letters, digits, _ and -",
        ),
        (
            'class O(Options):\n    use: Literal["a"]\nclass NoDefault(Widget):\n    options_type = O',
            "[NoDefault]",
            'O.use has no default; wanted: use: Literal["a"] = "a"',
        ),
        (
            OPTIONS.format("a") + "class One(Widget):\n    options_type = O\nclass Two(Widget):\n    options_type = O",
            "[One, Two]",
            "One and Two are both the widget 'a'",
        ),
        (
            OPTIONS.format("a") + "from kit import Mask\nclass Half(Mask):\n    options_type = O",
            "[Half]",
            "Half does not define allows, which every mask has",
        ),
    ],
)
def test_parts(world, body, listed, text):
    assert error_of(world, f"{body}\n@hookimpl\ndef kit_components():\n    return {listed}\n") == text
