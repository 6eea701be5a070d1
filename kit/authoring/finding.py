"""The package that an author means: installed, lying in a folder, or only importable."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from kit.errors import KitError, PartNotFound
from kit.kit import Kit
from kit.plugins import GROUP, Choice, LoadedPlugin, normal
from kit.registry import Registered


@dataclass(frozen=True)
class Package:
    """Some plugins of a kit."""

    title: str
    kit: Kit
    plugins: tuple[LoadedPlugin, ...]

    @property
    def parts(self) -> list[Registered]:
        """What they bring."""
        return [part for plugin in self.plugins for part in plugin.parts]


def find_package(name: str | None = None, kit: Kit | None = None) -> Package:
    """A package by the name of its plugin, distribution or module, or by its folder; none: the folder we are in."""
    kit = kit or Kit()
    if name is None or (Path(name) / "pyproject.toml").is_file():
        return _in_folder(Path(name or "."), kit)
    installed = _named(kit.plugins, name)
    if installed:
        return Package(name, kit, tuple(installed))
    module = name.replace("-", "_")
    if all(step.isidentifier() for step in module.split(".")) and _importable(module):
        return _with([EntryPoint(module.rpartition(".")[2], module, GROUP)], name)
    known = sorted({each for plugin in kit.plugins for each in (plugin.name, plugin.distribution)})
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    lines = [f"no plugin, distribution, module or folder is called {name!r}"]
    lines += [f"did you mean {' or '.join(near)}?"] if near else []
    raise PartNotFound("\n    ".join([*lines, f"installed: {', '.join(known)}"]))


def _in_folder(folder: Path, kit: Kit) -> Package:
    """The project of a folder, whether it is installed or not."""
    name, points = _declared(folder)
    for place in (folder / "src", folder):
        if str(place.resolve()) not in sys.path:
            sys.path.insert(0, str(place.resolve()))
    installed = [plugin for plugin in kit.plugins if normal(plugin.distribution) == normal(name)]
    return Package(name, kit, tuple(installed)) if installed else _with(points, name)


def _declared(folder: Path) -> tuple[str, list[EntryPoint]]:
    file = folder / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    except FileNotFoundError:
        raise KitError(
            f"{folder.resolve()} has no pyproject.toml, so there is no package to check\n"
            "    name one: kit plugin check PACKAGE; or write one: kit plugin new NAME --kind KIND"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KitError(f"{file} cannot be read: {error}") from None
    declared = project.get("entry-points", {}).get(GROUP, {})
    if not declared:
        raise KitError(
            f'{file} declares no plugin\n    add: [project.entry-points."{GROUP}"] and below it: name = "your_module"'
        )
    return str(project.get("name", folder.resolve().name)), [
        EntryPoint(point, value, GROUP) for point, value in declared.items()
    ]


def _with(points: Sequence[EntryPoint], title: str) -> Package:
    """A kit that has these plugins besides what is installed."""
    kit = Kit(entry_points=[*entry_points(group=GROUP), *points])
    modules = {point.value.partition(":")[0].partition(".")[0] for point in points}
    names = {point.name for point in points}
    found = [plugin for plugin in kit.plugins if plugin.name in names and plugin.distribution in modules]
    return Package(title, kit, tuple(found))


def _named(plugins: Iterable[LoadedPlugin], name: str) -> list[LoadedPlugin]:
    return [plugin for plugin in plugins if Choice("", [name]).names_plugin(plugin)]


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
