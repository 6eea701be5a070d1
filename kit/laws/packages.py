"""Package under test: found by the name of an installed plugin, distribution or module, or by a project folder."""

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
from kit.plugin.discovery import GROUP, LoadedPlugin, PluginFilter, canonical_name
from kit.plugin.registry import Registered


@dataclass(frozen=True)
class Package:
    """The plugins of one distribution, or one plugin, with the kit that has loaded them."""

    title: str
    kit: Kit
    plugins: tuple[LoadedPlugin, ...]

    @property
    def parts(self) -> list[Registered]:
        """The parts of all plugins."""
        return [part for plugin in self.plugins for part in plugin.parts]


def find_package(name: str | None = None, kit: Kit | None = None) -> Package:
    """Finds a package by its plugin, distribution, module or folder; None is the project in the working directory."""
    kit = kit or Kit()
    if name is None or (Path(name) / "pyproject.toml").is_file():
        return _package_in_folder(Path(name or "."), kit)
    installed = plugins_named(kit.plugins, name)
    if installed:
        return Package(name, kit, tuple(installed))
    module = name.replace("-", "_")
    if all(step.isidentifier() for step in module.split(".")) and _importable(module):
        return _load_uninstalled([EntryPoint(module.rpartition(".")[2], module, GROUP)], name)
    known = sorted({each for plugin in kit.plugins for each in (plugin.name, plugin.distribution)})
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    lines = [f"no plugin, distribution, module or folder is called {name!r}"]
    lines += [f"did you mean {' or '.join(near)}?"] if near else []
    raise PartNotFound("\n    ".join([*lines, f"installed: {', '.join(known)}"]))


def _package_in_folder(folder: Path, kit: Kit) -> Package:
    """Finds the package of a project folder, installed or not."""
    name, points = _declared_plugins(folder)
    for path in (folder / "src", folder):
        if str(path.resolve()) not in sys.path:
            sys.path.insert(0, str(path.resolve()))
    installed = [plugin for plugin in kit.plugins if canonical_name(plugin.distribution) == canonical_name(name)]
    return Package(name, kit, tuple(installed)) if installed else _load_uninstalled(points, name)


def _declared_plugins(folder: Path) -> tuple[str, list[EntryPoint]]:
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


def _load_uninstalled(points: Sequence[EntryPoint], title: str) -> Package:
    """Loads plugins besides the installed ones, and returns them as a package."""
    kit = Kit(entry_points=[*entry_points(group=GROUP), *points])
    modules = {point.value.partition(":")[0].partition(".")[0] for point in points}
    names = {point.name for point in points}
    found = [plugin for plugin in kit.plugins if plugin.name in names and plugin.distribution in modules]
    return Package(title, kit, tuple(found))


def plugins_named(plugins: Iterable[LoadedPlugin], name: str) -> list[LoadedPlugin]:
    """Selects plugins by their name, distribution, or `distribution:name`."""
    return [plugin for plugin in plugins if PluginFilter("", [name]).matches(plugin)]


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
