"""What an editor makes of `kit schema --write`: recipes as they are written, with a stranger's part installed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from documentation.blocks import ROOT, Block
from documentation.page_runner import Stage, play
from jsonschema import Draft202012Validator

RECIPE = """\
# yaml-language-server: $schema=recipe.schema.json
name: edited
model:
  family: encoder
  width: 64
  position: sinusoidal
  norm: {use: faraway, epsilon: 1.0e-3}
  encoder: {depth: 2, attention: {use: softmax, heads: 4}, feedforward: gelu, residual: pre, masks: []}
data: {use: plain_text, train: book.txt}
tokenizer: words
training: {steps: 10, batch_tokens: 100, optimizer: {use: adamw, learning_rate: 2e-5}, metrics: [accuracy]}
"""


def shipped() -> list[Path]:
    """The recipes that come with the kit, whichever folder they are in."""
    found = sorted((ROOT / "recipes").rglob("*.yaml"))
    return [path for path in found if ".weights" not in path.suffixes and path.parent.name != "studies"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a stranger's norm, faraway, was installed and the schema written."""
    place = tmp_path_factory.mktemp("editor")
    commands = "$ kit plugin new faraway --kind norm\n$ pip install -e kit-faraway\n"
    commands += "$ kit schema --write recipe.schema.json\n"
    assert play([Block("", "", "console", commands, 0)], Stage(place)) == []
    return place


@pytest.fixture(scope="module")
def editor(folder: Path) -> Draft202012Validator:
    """The schema that a recipe's first line names."""
    named = re.search(r"^# yaml-language-server: \$schema=(\S+)$", RECIPE, re.MULTILINE)
    assert named is not None
    schema = json.loads((folder / named[1]).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_a_good_recipe_has_no_squiggles(editor: Draft202012Validator) -> None:
    assert list(editor.iter_errors(_read(RECIPE))) == []


@pytest.mark.parametrize("path", shipped(), ids=lambda path: str(path.relative_to(ROOT / "recipes")))
def test_no_recipe_that_ships_has_any(path: Path, editor: Draft202012Validator) -> None:
    assert [error.message for error in editor.iter_errors(_read(path.read_text(encoding="utf-8")))] == []


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        ("family: encoder", "family: encodr", ("model", "family")),
        ("width: 64", "width: wide", ("model", "width")),
        ("width: 64", "widht: 64", ("model",)),
        ("{use: faraway, epsilon: 1.0e-3}", "{use: faraway, epsilom: 1.0e-3}", ("model", "norm")),
        ("{use: faraway, epsilon: 1.0e-3}", "{use: faraway, epsilon: -1.0}", ("model", "norm")),
        ("{use: faraway, epsilon: 1.0e-3}", "farawy", ("model", "norm")),
        ("heads: 4", "heads: 0", ("model", "encoder")),
        ("heads: 4", "hedas: 4", ("model", "encoder")),
        ("tokenizer: words", "tokenizer: wrods", ("tokenizer",)),
        ("steps: 10", "steps: 10.5", ("training",)),
        ("metrics: [accuracy]", "metrics: accuracy", ("training",)),
        ("train: book.txt", "trian: book.txt", ("data",)),
        ("name: edited\n", "", ()),
    ],
)
def test_a_mistake_is_underlined_where_it_is(
    right: str, wrong: str, place: tuple[str, ...], editor: Draft202012Validator
) -> None:
    assert RECIPE.count(right) == 1
    errors = list(editor.iter_errors(_read(RECIPE.replace(right, wrong))))
    assert errors
    assert {tuple(error.absolute_path)[: len(place)] for error in errors} == {place}


def test_a_strangers_part_is_offered_with_its_words(editor: Draft202012Validator) -> None:
    schema: Any = editor.schema
    offered = json.dumps(schema["$defs"]["ModelSection"]["properties"]["norm"])
    assert '"faraway"' in offered and '"layer"' in offered
    options = next(each for name, each in schema["$defs"].items() if "faraway" in name.lower())
    assert options["properties"]["epsilon"]["description"] == "The number that is added to the denominator."


def _read(text: str) -> Any:
    return yaml.load(text, Loader)


class Loader(yaml.SafeLoader):
    """Reads numbers as YAML 1.2 and therefore editors do: 2e-5 is one."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
