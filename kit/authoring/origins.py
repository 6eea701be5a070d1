"""Where a part or a plugin comes from, and why it is not there, in words."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from difflib import get_close_matches

from kit.errors import KitError, PartNotFound
from kit.hookspecs import API_LEVEL
from kit.kit import Kit
from kit.plugins import Choice, LoadedPlugin
from kit.registry import Registered, split_version


def why(name: str, kit: Kit) -> list[str]:
    """Everything there is to say of a name: a part's, `kind name` or scoped; or a plugin's or distribution's."""
    kind, _, plain = name.rpartition(" ")
    lines = [line for plugin in kit.plugins if Choice("", [name]).names_plugin(plugin) for line in _of_plugin(plugin)]
    parts = list(_parts(kit, kind, split_version(plain)[0]))
    lines += [line for part in parts for line in _of_part(part, kit)]
    if not lines:
        lines = list(_missing(kit, kind, plain))
    return lines


def _of_plugin(plugin: LoadedPlugin) -> Iterator[str]:
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


def _of_part(part: Registered, kit: Kit) -> Iterator[str]:
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


def _missing(kit: Kit, kind: str, name: str) -> Iterator[str]:
    """The registry knows best what to say of a part that is not there."""
    kinds = [kind] if kind else []
    for each in kinds:
        try:
            kit.registry.find(each, name)
        except KitError as error:
            raise type(error)(str(error)) from None
    names = sorted(
        {part.name for plugin in kit.plugins for part in plugin.parts}
        | {each for plugin in kit.plugins for each in (plugin.name, plugin.distribution)}
    )
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    lines = [f"no part, plugin or distribution is called {name!r}"]
    lines += [f"did you mean {' or '.join(near)}?"] if near else []
    unseen = [plugin for plugin in kit.plugins if plugin.status != "loaded" and not plugin.parts]
    lines += [f"{plugin.title} is {plugin.status} ({plugin.error}); it may bring it" for plugin in unseen]
    yield from ()
    raise PartNotFound("\n    ".join([*lines, "kit plugin list shows every plugin, kit list every part"]))
