"""Thousands of damaged recipes: each is accepted, or refused with lines; nothing else escapes, and none takes long."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit import Kit
from kit.errors import Problem, RecipeError
from kit.recipe.loading import load_recipe
from kit.recipe.nodes import to_plain
from kit.recipe.yaml_reader import read_yaml

EXAMPLES = 2200
SECONDS = 2.0
EMBEDDED = b"""\
# a recipe of every shape that YAML has
name: embedded
description: |
  Several
  lines.
model:
  family: encoder-decoder
  width: 64
  dropout: 1e-1
  vocabulary: {source: 100, target: 120}
  position: {use: sinusoidal}
  norm: layer
  encoder: &stack
    depth: 2
    attention: {use: softmax, heads: 4}
    feedforward: {use: relu, ffn_multiplier: 4}
    residual: pre
  decoder:
    depth: 4
    attention: {use: softmax, heads: 4, kv_heads: 2}
    cross_attention: {use: softmax, heads: 4}
    feedforward: relu
    residual: pre
    masks: [causal]
    layers:
      - repeat: 1
        attention: {use: softmax, heads: 2}
      - {repeat: 3}
"""
ROOT = Path(__file__).parents[2]
FILES = [
    path
    for path in sorted((ROOT / "recipes").rglob("*.yaml"))
    if not path.name.endswith(".weights.yaml") and path.parent.name != "studies"
]
RECIPES = [EMBEDDED, *(path.read_bytes() for path in FILES)]
REGISTRY = Kit().registry

BOMB = "&b0 [1, 1, 1, 1, 1, 1, 1, 1]" + "".join(f", &b{i} [{', '.join([f'*b{i - 1}'] * 9)}]" for i in range(1, 9))
ODD = [
    b"\t", b"\x00", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x85", b"\r", b"\n", b"\n\n  ",
    b": ", b"- ", b"? ", b"|\n", b">-\n", b"'", b'"', b"{", b"}", b"[", b"]", b", ", b"# ", b"---\n", b"...\n",
    b"%YAML 1.1\n", b"%TAG ! x:\n---\n", b"&a ", b"*a", b"*stack", b"&x [*x]", b"<<: *stack\n", b"!x ", b"! ",
    b"!!python/object:os.system ", b"!!binary ", b"=", b"~", b"null", b"no", b"2e-5", b".nan", b"-.inf", b"1e999",
    b"9" * 5000, b"0x" + b"f" * 99, b'"\\UFFFFFFFF"', b'"\\ud800"', b'"\\0"', b"{use: }", b"{use: [a]}",
    b"{use: {use: x}}", b"use: ", b"extends: a.yaml\n", b"extends: /\n", b"extends: .\n", b"extends: [1]\n",
    b"[" * 300, b"- " * 300, b"{a: " * 300, b"[" + b"{}, " * 300 + b"]", BOMB.encode(), "é😀\u2028\u202eabc".encode(),
]  # fmt: skip
HUGE = [
    b"[" * 100_000, b"- " * 90_000, b"{a: " * 40_000, b"[\n" * 90_000, b"a" * 150_000, b" " * 150_000, b"\n" * 150_000,
    b"x" * 250_000, b"[" + b"1, " * 9_000 + b"]", b"[" + b"{}, " * 3_000 + b"]", b"[" + b"{use: x}, " * 3_000 + b"]",
    b"'" + b"a\n" * 70_000 + b"'", b'"' + b"\\n" * 70_000 + b'"', b"- 1\n" * 45_000, b"a:\n" * 60_000, b"? " * 90_000,
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 3, 10**17, 10**19, 0.5, -0.0, 1e308, "", "no", "512", "rms", "layer", "softmax",
    "causal", "any", "kitformer/softmax", "a/b/c", "/", "use", "x" * 5000, "\n", [], {}, [[]], [{}], ["causal"], [None],
    {"": 1}, {"use": None}, {"use": 3}, {"use": "softmax"}, {"use": "any", "masks": ["causal"]}, {"model": {}},
    {"use": "any", "masks": [{"use": "any", "masks": []}]}, {"use": "not", "mask": {"use": "not", "mask": "causal"}},
    list(range(500)), {str(i): i for i in range(300)},
]  # fmt: skip


def cut(content: bytes, draw: st.DrawFn) -> bytes:
    start = draw(st.integers(0, len(content)))
    return content[:start] if draw(st.booleans()) else content[:start] + content[start + draw(st.integers(0, 40)) :]


def insert(content: bytes, draw: st.DrawFn) -> bytes:
    at = draw(st.integers(0, len(content)))
    return content[:at] + draw(st.sampled_from(ODD)) + content[at:]


def byte(content: bytes, draw: st.DrawFn) -> bytes:
    at = draw(st.integers(0, max(0, len(content) - 1)))
    return content[:at] + draw(st.binary(min_size=1, max_size=3)) + content[at + 1 :]


def line(content: bytes, draw: st.DrawFn) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    first, second = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    match draw(st.sampled_from(["drop", "double", "swap", "indent", "value"])):
        case "drop":
            del lines[first]
        case "double":
            lines.insert(second, lines[first])
        case "swap":
            lines[first], lines[second] = lines[second], lines[first]
        case "indent":
            lines[first] = b" " * draw(st.integers(1, 6)) + lines[first]
        case _:
            lines[first] = lines[first].partition(b":")[0] + b": " + draw(st.sampled_from(ODD)) + b"\n"
    return b"".join(lines)


def splice(content: bytes, draw: st.DrawFn) -> bytes:
    other = draw(st.sampled_from(RECIPES))
    return content[: draw(st.integers(0, len(content)))] + other[draw(st.integers(0, len(other))) :]


@lru_cache
def as_json(content: bytes) -> str | None:
    try:
        return json.dumps(to_plain(read_yaml(content, "x")))
    except RecipeError:
        return None


def value(content: bytes, draw: st.DrawFn) -> bytes:
    """Change one value somewhere in the tree, or the name of its key, and write the whole as JSON, which is YAML."""
    written = as_json(content)
    if written is None:
        return byte(content, draw)
    tree = json.loads(written)
    spots: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        children = list(node.items() if isinstance(node, dict) else enumerate(node))
        spots += [(node, key) for key, _ in children]
        waiting += [child for _, child in children if isinstance(child, dict | list)]
    owner, key = draw(st.sampled_from(spots)) if spots else (tree, "name")
    choice = draw(st.sampled_from(["set", "set", "set", "rename", "add", "drop", "lift"]))
    new = draw(st.sampled_from(VALUES))
    if choice == "rename" and isinstance(owner, dict) and key in owner:
        owner[f"{key}{draw(st.sampled_from(['s', '_', 'x', '']))}"[: draw(st.integers(1, 9))]] = owner.pop(key)
    elif choice == "add" and isinstance(owner, dict):
        owner[draw(st.sampled_from(["widht", "use", "extends", "norm", "0", "masks", "heads"]))] = new
    elif choice == "drop" and isinstance(owner, dict):
        owner.pop(key, None)
    elif choice == "lift":
        owner[key] = draw(st.sampled_from([[owner[key]], {"use": owner[key]}, {key: owner[key]}])) if spots else new
    else:
        owner[key] = new
    return json.dumps(tree, indent=draw(st.sampled_from([None, 1]))).encode()


MUTATIONS: list[Callable[[bytes, st.DrawFn], bytes]] = [cut, insert, byte, line, splice, value, value, value]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    content = draw(st.sampled_from(RECIPES))
    for mutate in draw(st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=3)):
        content = mutate(content, draw)
    return content


def outcome(content: bytes, folder: Path) -> str:
    """Load it as a file, and hold it to what is promised."""
    file = folder / "recipe.yaml"
    file.write_bytes(content)
    start = time.process_time()
    problems: list[Problem] | None = None
    try:
        load_recipe(file, REGISTRY)
    except RecipeError as error:
        problems = error.problems
    assert time.process_time() - start < SECONDS
    if problems is None:
        return "accepted"
    assert problems
    for problem in problems:
        assert problem.line is not None, str(problem)
        assert problem.source == str(file), str(problem)
        assert "\x00" not in str(problem)
    return "refused"


def test_undamaged_recipes_are_accepted() -> None:
    load_recipe(EMBEDDED.decode(), REGISTRY)
    for path in FILES:
        load_recipe(path, REGISTRY)


def test_damaged_recipes(tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("mutations")
    outcomes: list[str] = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(damaged())
    def run(content: bytes) -> None:
        outcomes.append(outcome(content, folder))

    run()
    assert len(outcomes) >= 2000
    assert outcomes.count("refused") > 1000
    assert outcomes.count("accepted") > 20


def test_every_odd_piece_at_every_value(tmp_path: Path) -> None:
    """The pieces that hurt parsers most, each in the place of a value, whatever chance picks elsewhere."""
    for piece in ODD + HUGE:
        outcome(b"name: x\nmodel:\n  norm: " + piece + b"\n  width: 8\n", tmp_path)
        outcome(EMBEDDED + piece, tmp_path)
    for piece in ODD:
        outcome(piece + b"\n" + EMBEDDED, tmp_path)
