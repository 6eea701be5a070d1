"""Messages about recipes: what cannot be seen is escaped and named, wherever in the recipe it stands."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from kit import KitError
from kit.errors import MAX_LINE, Problem, RecipeError
from kit.recipe.loading import load_recipe

from .parts import registry

REGISTRY = registry()
UNSEEN = [
    "\u00a0", "\u00ad", "\u034f", "\u061c", "\u115f", "\u180e", "\u200b", "\u200d", "\u200e", "\u2028", "\u202e",
    "\u2060", "\u2066", "\u2800", "\u3164", "\ufe0f", "\ufeff", "\uffa0", "\U000e0041", "\U000e0100",
]  # fmt: skip
RECIPE = "name: x\nmodel:\n  family: encoder\n  width: 8\n"
PLACES = {
    "key": RECIPE.replace("name", "na@me"),
    "inner key": RECIPE + "  dropout@: 0.1\n",
    "name": RECIPE.replace("name: x", "name: 'two x@'"),
    "value": RECIPE + "  tie: out@put\n",
    "part": RECIPE + "  norm: la@yer\n",
    "part in a mapping": RECIPE + "  norm: {use: la@yer}\n",
    "option": RECIPE + "  norm: {use: layer, eps@ilon: 1}\n",
    "key that occurs twice": RECIPE + "  na@: 1\n  na@: 2\n",
    "key of a mapping": RECIPE + "  width@: 1\n  tie: {a@b: 1}\n",
    "path": RECIPE + "  encoder: {named: {a@b: 3}}\n",
    "list": RECIPE + "  encoder: {masks: 'caus@al'}\n",
    "tag": RECIPE + "  tie: !a@b x\n",
    "parent": "extends: ba@se.yaml\n" + RECIPE,
}


def shown(text: str, *overrides: str) -> str:
    with pytest.raises(KitError) as caught:
        load_recipe(text, REGISTRY, overrides)
    assert all(each == "\n" or visible(each) for each in str(caught.value)), ascii(str(caught.value))
    return str(caught.value)


def visible(character: str) -> bool:
    return character not in UNSEEN and (character == " " or unicodedata.category(character)[0] not in "CZ")


@pytest.mark.parametrize("character", UNSEEN, ids=ascii)
def test_a_character_that_cannot_be_seen_is_escaped_and_named(character: str) -> None:
    escape, name = ascii(character).strip("'"), unicodedata.name(character, "")
    for place, text in PLACES.items():
        message = shown(text.replace("@", character))
        if "this is not YAML" in message:
            continue  # a line end, or not allowed in a tag; what YAML says repeats no text
        assert escape in message, place
        if not place.startswith("part"):  # the registry spells names as Python does, without a word on them
            assert f"it holds what cannot be seen: {escape} ({name})" in message, (place, message)
    assert f"{escape} ({name})" in shown(RECIPE, f"model.tie=out{character}put")
    assert f"{escape} ({name})" in shown(RECIPE, f"mod{character}el.tie=output")


def test_the_words_for_a_key_with_an_invisible_character() -> None:
    line = shown("name: x\nmodel: {family: encoder, width: 8, widt\u200bh: 9}\n")
    assert line.startswith("recipe:2: model.widt\\u200bh: there is no 'widt\\u200bh' here; the keys are family, width,")
    assert line.endswith(
        "\n    did you mean width?"
        "\n    it holds what cannot be seen: \\u200b (ZERO WIDTH SPACE); delete it unless it is meant"
    )


def test_text_that_can_be_seen_stays_as_it_is() -> None:
    text = "«größer» 模型 नमस्ते ‘x’ … → 😀 é"
    assert str(KitError(text)) == text
    assert str(Problem(text, ("model",), text, 3, text)) == f"{text}:3: model: {text}\n    {text}"


def test_control_characters_are_escaped() -> None:
    said = str(KitError("a\x1b[31m\tb\r\x85\ud800\n    hint"))
    assert said.splitlines()[:2] == ["a\\x1b[31m\\tb\\r\\x85\\ud800", "    hint"]
    assert "\\x1b (CONTROL CODE), \\x85 (CONTROL CODE), \\ud800 (CONTROL CODE)" in said
    said.encode()
    assert str(KitError("a\tb\r")) == "a\\tb\\r"


def test_a_message_in_a_message_is_shown_once() -> None:
    inner = KitError("a\u200b")
    assert str(KitError(f"outer: {inner}")) == f"outer: {inner}"
    assert str(RecipeError([Problem("x\u200b"), Problem("y\u202e")])).count("cannot be seen") == 2


def test_lines_that_are_too_long_are_cut_in_the_middle() -> None:
    said = str(KitError("start " + "x" * 1_000_000 + " end\n    hint"))
    assert len(said) < MAX_LINE + 20
    assert said.startswith("start xxx") and said.endswith("xxx end\n    hint")
    assert str(KitError("x" * MAX_LINE)) == "x" * MAX_LINE


def test_a_name_cannot_write_a_line_of_its_own(tmp_path: Path) -> None:
    lines = ["recipe:5: model.a\\nrecipe:1: b: there is no 'a\\nrecipe:1: b' here; the keys are"]
    found = shown(RECIPE + '  "a\\nrecipe:1: b": 1\n').splitlines()
    assert len(found) == len(lines) and found[0].startswith(lines[0])
    assert len(shown(RECIPE + '  tie: {"a\\nb": 1}\n').splitlines()) == 1
    assert len(shown(RECIPE + '  encoder: {masks: "a\\nb"}\n').splitlines()) == 2
    assert len(shown(RECIPE + '  "a\\nb": 1\n  "a\\nb": 2\n').splitlines()) == 2
    file = tmp_path / "a\nb.yaml"
    file.write_text(RECIPE + "  tie: x\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(file, REGISTRY)
    assert str(caught.value).startswith(f"{tmp_path}/a\\nb.yaml:5: model.tie: found 'x'")
