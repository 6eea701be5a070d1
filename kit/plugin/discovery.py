"""Plugin discovery: entry points, the filters that disable plugins, and the cause of a failed import."""

from __future__ import annotations

import importlib.metadata
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Literal

from kit.errors import PartNotFound

if TYPE_CHECKING:
    from kit.plugin.component import Component


GROUP = "kit.plugins"
"""The entry-point group that every plugin, of this distribution or another, is found through."""
OWN = "kitformer"
"""The kit's own distribution; plugins of any other are third-party."""


@dataclass(frozen=True)
class Registered:
    """A component and the distribution it comes from."""

    component: type[Component]
    kind: str
    name: str
    distribution: str
    version: str
    plugin: str

    @property
    def scoped(self) -> str:
        """The name qualified by the distribution, unique where two distributions have a component of one name."""
        return f"{self.distribution}/{self.name}"

    @property
    def origin(self) -> str:
        """Distribution and version, for messages."""
        return f"{self.distribution} {self.version}".strip()


@dataclass(frozen=True)
class LoadedPlugin:
    """A plugin and its status."""

    name: str
    """The name of its entry point."""
    distribution: str
    version: str
    load: Callable[[], object] = field(repr=False, compare=False)
    """Imports the plugin."""
    status: Literal["found", "loaded", "failed", "disabled"] = "found"
    api: int | None = None
    """The API level that it declares."""
    error: str | None = None
    """The cause of a failure, or the setting that disabled it."""
    parts: tuple[Registered, ...] = ()
    """The components that it brings, as far as they could be listed."""
    from_object: bool = False
    """Whether it was passed to `Kit` as an object, without an entry point."""
    module: str = ""
    """The module that its entry point names."""

    @property
    def key(self) -> str:
        """The name in the plugin manager, `distribution:name`: two distributions may have a plugin of one name."""
        return f"{self.distribution}:{self.name}"

    @property
    def title(self) -> str:
        """The name in messages: `kit-sample 1.2 (plugin windows)`."""
        origin = f"{self.distribution} {self.version}".strip()
        return (
            origin
            if canonical_name(self.name) == canonical_name(self.distribution)
            else f"{origin} (plugin {self.name})"
        )

    def failed(self, error: str) -> LoadedPlugin:
        """The same plugin with the status failed."""
        return replace(self, status="failed", error=error)


@dataclass(frozen=True)
class PluginFilter:
    """Names of plugins to disable or to keep alone, and the setting that they come from."""

    source: str
    names: Sequence[str]

    def matches(self, plugin: LoadedPlugin) -> bool:
        """Whether a name is the plugin's, its distribution's, or `distribution:name`."""
        typed = {canonical_name(name) for name in self.names}
        return not typed.isdisjoint(
            {canonical_name(plugin.name), canonical_name(plugin.distribution), canonical_name(plugin.key)}
        )


def canonical_name(name: str) -> str:
    """The normalized name of a distribution or plugin (PEP 503): lower case, runs of `-`, `_` and `.` as one `-`."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def installed_plugins(entry_points: Iterable[importlib.metadata.EntryPoint] | None = None) -> list[LoadedPlugin]:
    """The installed plugins by their entry points, without importing them; duplicates are listed once."""
    if entry_points is None:
        entry_points = importlib.metadata.entry_points(group=GROUP)
    found: dict[tuple[str, str], LoadedPlugin] = {}
    for entry in entry_points:
        name, version = (entry.dist.name, entry.dist.version) if entry.dist else (entry.value.split(".")[0], "")
        plugin = LoadedPlugin(name=entry.name, distribution=name, version=version, load=entry.load, module=entry.module)
        found.setdefault((canonical_name(name), entry.value), plugin)
    return sorted(found.values(), key=lambda plugin: (canonical_name(plugin.distribution), plugin.name))


def third_party_distributions(entry_points: Iterable[importlib.metadata.EntryPoint] | None = None) -> list[str]:
    """The distributions with plugins other than the kit's own, without importing them."""
    return sorted(
        {
            plugin.distribution
            for plugin in installed_plugins(entry_points)
            if canonical_name(plugin.distribution) != OWN
        }
    )


def from_objects(objects: Sequence[object]) -> list[LoadedPlugin]:
    """Plugins passed as modules or instances; each counts as a distribution of its own."""
    found: dict[str, LoadedPlugin] = {}
    for item in objects:
        name = label = str(getattr(item, "__name__", type(item).__name__)).rpartition(".")[2]
        number = 1
        while label in found:
            number += 1
            label = f"{name}-{number}"
        found[label] = LoadedPlugin(
            name=label, distribution=label, version="", load=partial(_itself, item), from_object=True
        )
    return list(found.values())


def _itself(item: object) -> object:
    return item


def filter_plugins(
    found: Sequence[LoadedPlugin], disable: Sequence[PluginFilter], only: Sequence[PluginFilter]
) -> list[LoadedPlugin]:
    """The plugins with the filtered ones marked as disabled; raises PartNotFound for an unknown name."""
    for choice in (*disable, *only):
        for name in choice.names:
            if not any(PluginFilter(choice.source, [name]).matches(plugin) for plugin in found):
                raise PartNotFound(_unknown_plugin(choice.source, name, found))
    chosen = []
    for plugin in found:
        reasons = [f"disabled by {choice.source}" for choice in disable if choice.matches(plugin)]
        if not plugin.from_object:
            reasons += [f"left out by {choice.source}" for choice in only if not choice.matches(plugin)]
        chosen.append(replace(plugin, status="disabled", error=reasons[0]) if reasons else plugin)
    return chosen


def cause_of(error: BaseException) -> str:
    """The type and message of an error, with the file and line that raised it, in one line."""
    text = (str(error).splitlines() or [""])[0]
    if isinstance(error, SyntaxError) and error.filename:
        text, place = error.msg, f"{error.filename}:{error.lineno}"
    else:
        # The first frame is the kit's own call, and frames of importlib do not belong to the plugin.
        frames = [it for it in traceback.extract_tb(error.__traceback__)[1:] if not _is_machinery(it.filename)]
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{f' ({place})' if place else ''}"


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<frozen") or filename in (importlib.metadata.__file__, importlib.__file__)


def _unknown_plugin(source: str, name: str, found: Sequence[LoadedPlugin]) -> str:
    names = sorted({plugin.name for plugin in found} | {plugin.distribution for plugin in found})
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    lines = [f"{source} names the plugin {name!r}, and no plugin or distribution of that name is installed"]
    lines += [f"did you mean {' or '.join(near)}?"] if near else []
    lines += [f"installed: {', '.join(names) or 'none'}"]
    return "\n    ".join(lines)
