"""Finding plugins through entry points, choosing among them, and importing each so that a broken one harms no other."""

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
    from kit.component import Component

GROUP = "kit.plugins"
"""The entry-point group that every plugin, of this distribution or another, is found through."""
OWN = "kitformer"
"""The kit's own distribution; what comes with any other is a third party's."""


@dataclass(frozen=True)
class Registered:
    """A part and where it comes from."""

    component: type[Component]
    kind: str
    name: str
    distribution: str
    version: str
    plugin: str

    @property
    def scoped(self) -> str:
        """The name that selects this part even where another distribution has one of the same name."""
        return f"{self.distribution}/{self.name}"

    @property
    def origin(self) -> str:
        """The distribution and its version, for messages."""
        return f"{self.distribution} {self.version}".strip()


@dataclass(frozen=True)
class LoadedPlugin:
    """A plugin that was found, and what became of it."""

    name: str
    """The name of its entry point."""
    distribution: str
    version: str
    load: Callable[[], object] = field(repr=False, compare=False)
    """Imports it."""
    status: Literal["found", "loaded", "failed", "disabled"] = "found"
    api: int | None = None
    """The API level it was written for, where it says one."""
    error: str | None = None
    """Why it is not in use, where it is not: the cause of the failure, or who disabled it."""
    parts: tuple[Registered, ...] = ()
    """What it brings, as far as that could be learnt."""
    given: bool = False
    """Whether it was handed to the kit as an object, without an entry point."""

    @property
    def key(self) -> str:
        """The name it is registered under: two distributions may each have a plugin of one name."""
        return f"{self.distribution}:{self.name}"

    @property
    def title(self) -> str:
        """How messages call it: `kit-sample 1.2 (plugin windows)`."""
        origin = f"{self.distribution} {self.version}".strip()
        return origin if normal(self.name) == normal(self.distribution) else f"{origin} (plugin {self.name})"

    def failed(self, error: str) -> LoadedPlugin:
        """The same plugin, out of use for this reason."""
        return replace(self, status="failed", error=error)


@dataclass(frozen=True)
class Choice:
    """Names of plugins that somebody typed, and where: to leave out, or to keep alone."""

    source: str
    names: Sequence[str]

    def names_plugin(self, plugin: LoadedPlugin) -> bool:
        """Whether the plugin is meant: by its name, its distribution, or `distribution:name`."""
        typed = {normal(name) for name in self.names}
        return not typed.isdisjoint({normal(plugin.name), normal(plugin.distribution), normal(plugin.key)})


def normal(name: str) -> str:
    """A name with differences of case, `-`, `_` and `.` taken out, as installers compare them."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def installed(entry_points: Iterable[importlib.metadata.EntryPoint] | None = None) -> list[LoadedPlugin]:
    """Every plugin that is installed, without importing any; one that is reached twice is listed once."""
    if entry_points is None:
        entry_points = importlib.metadata.entry_points(group=GROUP)
    found: dict[tuple[str, str], LoadedPlugin] = {}
    for entry in entry_points:
        name, version = (entry.dist.name, entry.dist.version) if entry.dist else (entry.value.split(".")[0], "")
        plugin = LoadedPlugin(name=entry.name, distribution=name, version=version, load=entry.load)
        found.setdefault((normal(name), entry.value), plugin)
    return sorted(found.values(), key=lambda plugin: (normal(plugin.distribution), plugin.name))


def strangers(entry_points: Iterable[importlib.metadata.EntryPoint] | None = None) -> list[str]:
    """The distributions with plugins that are not the kit's own; nothing is imported to know."""
    return sorted({plugin.distribution for plugin in installed(entry_points) if normal(plugin.distribution) != OWN})


def given(objects: Sequence[object]) -> list[LoadedPlugin]:
    """Plugins that were handed over as modules or instances; each counts as a distribution of its own."""
    found: dict[str, LoadedPlugin] = {}
    for item in objects:
        name = label = str(getattr(item, "__name__", type(item).__name__)).rpartition(".")[2]
        number = 1
        while label in found:
            number += 1
            label = f"{name}-{number}"
        found[label] = LoadedPlugin(name=label, distribution=label, version="", load=partial(_itself, item), given=True)
    return list(found.values())


def _itself(item: object) -> object:
    return item


def choose(found: Sequence[LoadedPlugin], disable: Sequence[Choice], only: Sequence[Choice]) -> list[LoadedPlugin]:
    """The same plugins, those left out marked as disabled; a name that no plugin has is refused."""
    for choice in (*disable, *only):
        for name in choice.names:
            if not any(Choice(choice.source, [name]).names_plugin(plugin) for plugin in found):
                raise PartNotFound(_unknown_plugin(choice.source, name, found))
    chosen = []
    for plugin in found:
        reasons = [f"disabled by {choice.source}" for choice in disable if choice.names_plugin(plugin)]
        if not plugin.given:
            reasons += [f"left out by {choice.source}" for choice in only if not choice.names_plugin(plugin)]
        chosen.append(replace(plugin, status="disabled", error=reasons[0]) if reasons else plugin)
    return chosen


def cause_of(error: BaseException) -> str:
    """One line that says what went wrong and in which line of which file."""
    text = (str(error).splitlines() or [""])[0]
    if isinstance(error, SyntaxError) and error.filename:
        text, place = error.msg, f"{error.filename}:{error.lineno}"
    else:
        # The first frame is the kit's own call, and those of importlib say nothing of the plugin.
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
