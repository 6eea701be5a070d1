"""The picture of the house in CONTRIBUTING.md is true: its files exist, and packages import only those below."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
sys.path.insert(0, str(ROOT / "tests"))

from test_layers import package_graph  # noqa: E402


def layers(text: str) -> list[str]:
    """The packages of the table, from top to bottom."""
    rows = re.findall(r"^\| `kit/([\w.]+)` \|", text, flags=re.MULTILINE)
    return [row.removesuffix(".py") for row in rows]


def upward(order: list[str], graph: dict) -> list[str]:
    """Imports of a package that stands above the one that imports it."""
    height = {name: -number for number, name in enumerate(order)}
    return [
        f"{found.path}:{found.line} imports {found.module}, which stands above it"
        for name, edges in graph.items()
        for other, found in edges.items()
        if name in height and other in height and height[other] >= height[name]
    ]


def test_every_package_stands_in_the_table_once():
    packages = {path.parent.name for path in (ROOT / "kit").glob("*/__init__.py")}
    assert sorted(layers(TEXT)) == sorted(packages | {"kit", "hookspecs", "errors"})


def test_packages_import_only_what_stands_below_them():
    assert upward(layers(TEXT), package_graph(ROOT / "kit")) == []


def test_a_package_that_stands_too_low_is_noticed():
    order = layers(TEXT)
    order.remove("training")
    assert any("kit/training/" in line for line in upward([*order, "training"], package_graph(ROOT / "kit")))


def test_every_file_that_is_named_is_there():
    named = re.findall(r"`((?:kit|plugins|tests|docs)/[\w/.]+)`", TEXT)
    assert len(named) > 40
    example = {"plugins/kit_mask/window.py", "tests/kit_mask/test_window.py", "plugins/kit_family/__init__.py"}
    assert [name for name in named if name not in example and not (ROOT / name).exists()] == []
