"""Origin of a part or plugin: its distribution and file, or why it is missing."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from difflib import get_close_matches
from typing import NoReturn

from kit import API_LEVEL, Kit, LoadedPlugin, PartNotFound, Registered
from kit.laws import plugins_named


def describe_origin(name: str, kit: Kit) -> list[str]:
    """Describes a part (`name`, `kind name` or `distribution/name`), a plugin or a distribution in lines."""
    kind, _, plain = name.rpartition(" ")
    lines = [line for plugin in plugins_named(kit.plugins, name) for line in _describe_plugin(plugin)]
    parts = list(_parts(kit, kind, plain.partition("@")[0]))
    lines += [line for part in parts for line in _describe_part(part, kit)]
    if not lines:
        _raise_not_found(kit, kind, plain)
    return lines


def _describe_plugin(plugin: LoadedPlugin) -> Iterator[str]:
    level = "no API level" if plugin.api is None else f"API level {plugin.api}"
    yield f"{plugin.title} is {plugin.status}; it says {level}, and this kit has {API_LEVEL}"
    if plugin.error:
        yield f"    because: {plugin.error}"
    if plugin.status == "disabled" and plugin.error and "KIT_" in plugin.error:
        yield f"    change the environment variable {plugin.error.rpartition(' ')[2]} to have it back"
    if plugin.parts:
        brings = ", ".join(f"{part.kind} {part.name}" for part in plugin.parts)
        yield f"    {'it would bring' if plugin.status != 'loaded' else 'it brings'}: {brings}"


def _parts(kit: Kit, kind: str, name: str) -> Iterator[Registered]:
    for plugin in kit.plugins:
        for part in plugin.parts:
            if (not kind or part.kind == kind) and name in (part.name, part.scoped):
                yield part


def _describe_part(part: Registered, kit: Kit) -> Iterator[str]:
    plugin = next(each for each in kit.plugins if part in each.parts)
    file = inspect.getsourcefile(part.component) or "an unknown file"
    yield f"the {part.kind} {part.name!r} comes from {plugin.title}: {file}"
    if plugin.status != "loaded":
        yield f"    it is not there, since its plugin is {plugin.status}: {plugin.error}"
        return
    version = part.component.version
    if version > 1:
        yield f"    version {version} of its options; recipes for earlier ones are migrated: use: {part.name}@1"
    others = [each for each in kit.registry.components(part.kind) if each.name == part.name and each is not part]
    if others:
        yield f"    {' and '.join(each.origin for each in others)} bring one too; select this one by {part.scoped}"
    else:
        yield f"    a recipe selects it by {part.name} or {part.scoped}"


def _raise_not_found(kit: Kit, kind: str, name: str) -> NoReturn:
    """Raises `PartNotFound`, with the message of the registry if a kind is given, else with similar names."""
    if kind:
        kit.registry.find(kind, name)
    names = sorted(
        {part.name for plugin in kit.plugins for part in plugin.parts}
        | {each for plugin in kit.plugins for each in (plugin.name, plugin.distribution)}
    )
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    lines = [f"no part, plugin or distribution is called {name!r}"]
    lines += [f"did you mean {' or '.join(near)}?"] if near else []
    unseen = [plugin for plugin in kit.plugins if plugin.status != "loaded" and not plugin.parts]
    lines += [f"{plugin.title} is {plugin.status} ({plugin.error}); it may bring it" for plugin in unseen]
    raise PartNotFound("\n    ".join([*lines, "kit plugin list shows every plugin, kit list every part"]))
