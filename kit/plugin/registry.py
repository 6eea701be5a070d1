"""The registry of components by kind and name, with messages for names that are unknown, ambiguous or unavailable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from kit.errors import PartNotFound, PluginError
from kit.plugin.discovery import LoadedPlugin, Registered, canonical_name

if TYPE_CHECKING:
    from kit.plugin.component import Options


__all__ = ["Registered", "Registry"]

MAX_NAMES_LISTED = 16
"""The largest number of names that a message lists in full."""


class Registry:
    """The components of all loaded plugins, and the known components of the others, for messages."""

    def __init__(self, plugins: Sequence[LoadedPlugin], kinds: Sequence[str] = ()) -> None:
        self._plugins = tuple(plugins)
        self._parts: dict[str, dict[str, list[Registered]]] = {kind: {} for kind in kinds}
        self._by_options: defaultdict[type, list[Registered]] = defaultdict(list)
        for plugin in plugins:
            for part in plugin.parts if plugin.status == "loaded" else ():
                self._parts.setdefault(part.kind, {}).setdefault(part.name, []).append(part)
                self._by_options[part.component.options_type].append(part)

    def kinds(self) -> list[str]:
        """The kinds of components, including those that only a contract declares."""
        return sorted(self._parts)

    def names(self, kind: str) -> list[str]:
        """The names that a recipe can select: plain, or `distribution/name` where a plain one is ambiguous."""
        return [part.name if len(self._same_name(part)) == 1 else part.scoped for part in self.components(kind)]

    def components(self, kind: str) -> list[Registered]:
        """The components of one kind, sorted by name."""
        by_name = self._of_kind(kind)
        return [part for name in sorted(by_name) for part in by_name[name]]

    def find(self, kind: str, name: str) -> Registered:
        """The component of a kind by its name, plain or `distribution/name`, with or without `@version`."""
        name, _ = split_version(name)
        distribution, slash, plain = name.rpartition("/")
        found = self._of_kind(kind).get(plain, [])
        if slash:
            found = [part for part in found if canonical_name(part.distribution) == canonical_name(distribution)]
        if len(found) == 1:
            return found[0]
        if found:
            raise PluginError(_ambiguous(found))
        self._raise_if_owner_unavailable(kind, plain, distribution)
        raise PartNotFound(self._not_found(kind, name))

    def default(self, kind: str) -> Registered | None:
        """The component that a recipe gets if it names none of this kind, if there is one."""
        defaults = [part for part in self.components(kind) if part.component.default]
        if len(defaults) > 1:
            names = " and ".join(f"{part.name} ({part.origin})" for part in defaults)
            raise PluginError(
                f"more than one {kind} says that it is the default: {names}\n"
                f"    name the one you want in the recipe: {kind}: {self._shortest_name(defaults[0])}"
            )
        return defaults[0] if defaults else None

    def baseline(self, kind: str) -> Registered | None:
        """The component that others of its kind are compared with: the marked one, else the default."""
        marked = [part for part in self.components(kind) if vars(part.component).get("is_baseline")]
        return marked[0] if marked else self.default(kind)

    def part_for_options(self, options_type: type[Options]) -> Registered:
        """The component that options of this type, or of a type derived from it, belong to."""
        for ancestor in options_type.__mro__:
            found = self._by_options.get(ancestor, [])
            if len(found) > 1:
                both = " and ".join(f"{part.component.__name__} ({part.origin})" for part in found)
                raise PluginError(f"{ancestor.__name__} are the options of more than one part: {both}")
            if found:
                return found[0]
        raise PartNotFound(
            f"{options_type.__module__}.{options_type.__name__} are not the options of any part of this kit\n"
            f"    its part is brought by no plugin that this kit has loaded; kit.plugins lists them"
        )

    def _of_kind(self, kind: str) -> dict[str, list[Registered]]:
        if kind in self._parts:
            return self._parts[kind]
        lines = [f"there is no kind of part called {kind!r}", *_near(kind, self.kinds())]
        raise PartNotFound("\n    ".join([*lines, f"the kinds are {', '.join(self.kinds())}"]))

    def _same_name(self, part: Registered) -> list[Registered]:
        return self._parts[part.kind][part.name]

    def _shortest_name(self, part: Registered) -> str:
        return part.name if len(self._same_name(part)) == 1 else part.scoped

    def _raise_if_owner_unavailable(self, kind: str, name: str, distribution: str) -> None:
        """Raises the cause if the component certainly belongs to plugins that failed or are disabled."""
        owners = self._of_distribution(distribution) if distribution else self._plugins
        unavailable = [plugin for plugin in owners if (kind, name) in {(part.kind, part.name) for part in plugin.parts}]
        if not unavailable and distribution and all(plugin.status != "loaded" for plugin in owners):
            unavailable = list(owners)
        if unavailable:
            broken = any(plugin.status == "failed" for plugin in unavailable)
            states = " and ".join(f"{plugin.title}, which {_status_text(plugin)}" for plugin in unavailable)
            raise (PluginError if broken else PartNotFound)(f"the {kind} {name!r} would come from {states}")

    def _of_distribution(self, distribution: str) -> list[LoadedPlugin]:
        return [
            plugin for plugin in self._plugins if canonical_name(plugin.distribution) == canonical_name(distribution)
        ]

    def _not_found(self, kind: str, name: str) -> str:
        names = self.names(kind)
        distribution, slash, plain = name.rpartition("/")
        known = self._of_distribution(distribution)
        lines = [f"no {kind} is called {name!r}"]
        if slash and not known:
            lines += [f"no distribution called {distribution!r} with plugins is installed"]
            lines += _near(distribution, sorted({plugin.distribution for plugin in self._plugins}))
        lines += _near(plain, names)
        lines += [
            f"{plain} is {_with_article(other)}"
            for other in self.kinds()
            if other != kind and plain in self._parts[other]
        ]
        if len(names) <= MAX_NAMES_LISTED:
            lines += [f"installed: {', '.join(names) or 'none'}"]
        else:
            lines += [f"kit list {kind} shows all {len(names)}"]
        return "\n    ".join([*lines, *_possible_owners(known if slash else self._plugins)])


def split_version(name: str) -> tuple[str, int | None]:
    """Splits `name@2` into its name and its version, None if there is no version."""
    plain, at, version = name.rpartition("@")
    return (plain, int(version)) if at and version.isascii() and version.isdigit() else (name, None)


def _status_text(plugin: LoadedPlugin) -> str:
    return f"failed to load: {plugin.error}" if plugin.status == "failed" else f"is {plugin.error}"


def _possible_owners(plugins: Sequence[LoadedPlugin]) -> list[str]:
    """Lines that name failed or disabled plugins whose components are unknown and may include the wanted one."""
    unseen = [plugin for plugin in plugins if plugin.status != "loaded" and not plugin.parts]
    failed = [plugin for plugin in unseen if plugin.status == "failed"]
    lines: list[str] = []
    for cause in dict.fromkeys(plugin.error for plugin in failed):
        alike = [plugin for plugin in failed if plugin.error == cause]
        named = ", ".join(plugin.title for plugin in alike)
        one = "it may be the one that brings it" if len(alike) == 1 else "one of them may bring it"
        lines += [f"{named} failed to load: {cause}; {one}"]
    disabled = [plugin for plugin in unseen if plugin.status == "disabled"]
    for reason in dict.fromkeys(plugin.error for plugin in disabled):
        titles = [plugin.title for plugin in disabled if plugin.error == reason]
        lines += [f"{reason}, and may bring it: {', '.join(titles)}"]
    return lines


def _ambiguous(found: Sequence[Registered]) -> str:
    kind, name = found[0].kind, found[0].name
    origins = " and ".join(part.origin for part in found)
    scoped = list(dict.fromkeys(part.scoped for part in found))
    if len(scoped) < len(found):
        classes = " and ".join(f"{part.component.__module__}.{part.component.__name__}" for part in found)
        return f"{len(found)} parts of one distribution are the {kind} {name!r}: {classes}\n    one needs another name"
    choices = " or ".join(scoped)
    return f"{len(found)} distributions bring {_with_article(kind)} called {name!r}: {origins}\n    type {choices}"


def _near(name: str, names: Sequence[str]) -> list[str]:
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    return [f"did you mean {' or '.join(near)}?"] if near else []


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
