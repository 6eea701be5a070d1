"""A small world of installed distributions, made of real files, for tests of how plugins are found and loaded."""

import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from textwrap import dedent

import pytest

from kit import Kit

HEADER = """\
from typing import Literal
from kit import Component, Options, hookimpl
from world_contracts import Gadget, Widget
kit_api = 1
"""

CONTRACTS = """\
from kit import Component

class Widget(Component):
    kind = "widget"

class Gadget(Component):
    kind = "gadget"
"""


def part(name: str, kind: str = "Widget", default: bool = False) -> str:
    """The source of one part."""
    title = name.title().replace("-", "").replace("_", "")
    return dedent(f'''
        class {title}Options(Options):
            use: Literal["{name}"] = "{name}"

        class {title}({kind}):
            options_type = {title}Options
            default = {default}
    ''')


def listing(*names: str) -> str:
    """The source of the hook that lists these classes."""
    return f"\n@hookimpl\ndef kit_components():\n    return [{', '.join(names)}]\n"


class World:
    """A folder that holds installed distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "world_contracts.py").write_text(CONTRACTS)

    def install(
        self, distribution: str, source: str, version: str = "1.2", entry: str = "", header: bool = True
    ) -> Path:
        """Put a plugin there, as an installer would; returns the file of its module."""
        module = distribution.replace("-", "_")
        path = self.folder / f"{module}.py"
        path.write_text((HEADER if header else "") + source)
        self.record(distribution, module, version, entry or distribution.removeprefix("kit-"))
        return path

    def record(self, distribution: str, module: str, version: str, entry: str, folder: Path | None = None) -> None:
        """Write only what an installer writes beside the code."""
        info = (folder or self.folder) / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[kit.plugins]\n{entry} = {module}\n")

    def kit(self, **arguments: object) -> Kit:
        """A kit of what is installed here and nothing else."""
        found = distributions(path=[str(self.folder)])
        points = [point for one in found for point in one.entry_points if point.group == "kit.plugins"]
        return Kit(entry_points=points, **arguments)  # type: ignore[arg-type]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield World(tmp_path)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def source() -> type:
    class Source:
        part = staticmethod(part)
        listing = staticmethod(listing)

    return Source
