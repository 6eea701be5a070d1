"""Provenance of the code of a run: distribution, version and file hashes of its plugins and components."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from pluggy import PluginManager
from pydantic import BaseModel, ConfigDict

from kit.errors import KitError
from kit.hookspecs import PROJECT
from kit.plugin.component import Options
from kit.plugin.discovery import OWN, LoadedPlugin
from kit.plugin.registry import Registered, Registry
from kit.recipe.sections import Recipe

KIT = OWN
"""The kit's own distribution, shared by first-party plugins, which are hashed one by one."""
_RUN_HOOKS = frozenset({"kit_callbacks"})
"""The hooks that are called in every run, whatever components its recipe names."""


class Source(BaseModel):
    """The origin of a plugin's code."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    distribution: str | None
    """The name of the distribution; None for code that is not installed."""
    version: str | None
    sha256: str
    """The hash of all its files, names and contents."""
    acts: bool = False
    """Whether it implements a hook that is called in every run, and so may affect runs without its components."""


def plugin_sources(plugins: Iterable[LoadedPlugin]) -> dict[str, Source]:
    """The sources of the loaded plugins, by name, for a lock."""
    sources = {}
    for plugin in plugins:
        if plugin.status == "loaded":
            loaded = plugin.load()
            module = loaded if isinstance(loaded, ModuleType) else type(loaded).__module__
            source = source_of(module, None if plugin.from_object else plugin.distribution)
            sources[plugin.name] = source.model_copy(update={"acts": _has_run_hook(loaded)})
    return sources


def _has_run_hook(plugin: object) -> bool:
    manager = PluginManager(PROJECT)
    marked = {name: manager.parse_hookimpl_opts(plugin, name) for name in dir(plugin)}
    hooks = (options.get("specname") or name for name, options in marked.items() if options is not None)
    return not _RUN_HOOKS.isdisjoint(hooks)


def source_of(module: ModuleType | str, distribution: str | None = None) -> Source:
    """The source of a module; the distribution is looked up if not given."""
    name = module if isinstance(module, str) else module.__name__
    if distribution is None:
        distribution = next(iter(metadata.packages_distributions().get(name.partition(".")[0], [])), None)
    try:
        installed = metadata.distribution(distribution) if distribution else None
    except metadata.PackageNotFoundError:
        installed = None
    files = _files_of_module(module)
    if installed is not None and installed.name != KIT:
        files |= _files_of_distribution(installed)
    return Source(
        distribution=installed.name if installed else distribution,
        version=installed.version if installed else None,
        sha256=_hash(files),
    )


def _files_of_module(module: ModuleType | str) -> dict[str, Path]:
    """The files of a module, or of its whole package; also for editable installs."""
    if isinstance(module, str) and module in sys.modules:
        module = sys.modules[module]  # also a script or a notebook, which have no spec
    if isinstance(module, str):
        spec = importlib.util.find_spec(module)
        origin, folders = (spec.origin, spec.submodule_search_locations) if spec else (None, None)
    else:
        origin, folders = getattr(module, "__file__", None), getattr(module, "__path__", None)
    name = (module if isinstance(module, str) else module.__name__).replace(".", "/")
    if not folders:
        return {f"{name}.py": Path(origin)} if origin and Path(origin).is_file() else {}
    found: dict[str, Path] = {}
    for folder in map(Path, folders):
        found |= {f"{name}/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*")}
    return _code_only(found)


def _files_of_distribution(installed: metadata.Distribution) -> dict[str, Path]:
    """The installed files of a distribution, all its modules; an editable install lists none."""
    found: dict[str, Path] = {}
    for file in installed.files or []:
        path = Path(str(installed.locate_file(file)))
        if file.parts[0] != ".." and not file.parts[0].endswith((".dist-info", ".egg-info", ".pth")):
            found[file.as_posix()] = path
    return _code_only(
        {name: path for name, path in found.items() if not name.startswith(("__editable__", "_editable"))}
    )


def _code_only(files: dict[str, Path]) -> dict[str, Path]:
    return {
        name: path
        for name, path in files.items()
        if path.is_file() and path.suffix != ".pyc" and "__pycache__" not in path.parts
    }


def _hash(files: dict[str, Path]) -> str:
    total = hashlib.sha256()
    for name in sorted(files):
        content = hashlib.sha256(files[name].read_bytes()).hexdigest()
        total.update(f"{name}\0{content}\n".encode())
    return total.hexdigest()


class UsedPart(BaseModel):
    """The origin of a component."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    plugin: str
    distribution: str
    version: str
    """The version of the distribution."""
    options: int = 1
    """The version of its options."""
    sha256: str
    """The hash of the file that defines its class."""


def used_parts(recipe: Recipe, registry: Registry, more: Iterable[Options] = ()) -> dict[str, UsedPart]:
    """The components that a recipe names, and the defaults of the kinds that it does not name, by kind and name.

    more: options of components that were selected for the recipe, such as its objective.
    """
    found: dict[str, Registered] = {}
    for options in (*_options(recipe), *more):
        try:
            part = registry.part_for_options(type(options))
        except KitError:  # options of no registered component
            continue
        found[_title(part)] = part
    kinds = {part.kind for part in found.values()}
    for kind in registry.kinds():
        default = registry.default(kind) if kind not in kinds else None
        if default is not None:
            found[_title(default)] = default
    return {title: used_part(found[title]) for title in sorted(found)}


def used_part(part: Registered) -> UsedPart:
    """A component as recorded in a lock."""
    file = inspect.getsourcefile(part.component)
    content = Path(file).read_bytes() if file and Path(file).is_file() else b""
    return UsedPart(
        plugin=part.plugin,
        distribution=part.distribution,
        version=part.version,
        options=part.component.version,
        sha256=hashlib.sha256(content).hexdigest(),
    )


def parts_here(then: Mapping[str, UsedPart], registry: Registry) -> dict[str, UsedPart]:
    """The current origins of those components that are installed."""
    found = {}
    for title, part in then.items():
        kind, _, name = title.partition(" ")
        for candidate in (name, f"{part.distribution}/{name.rpartition('/')[2]}"):
            try:
                found[title] = used_part(registry.find(kind, candidate))
                break
            except KitError:
                continue
    return found


def differences(then: Mapping[str, UsedPart], now: Mapping[str, UsedPart]) -> Iterator[str]:
    """The differences between recorded and current components, a sentence each."""
    for title, part in then.items():
        here = now.get(title)
        if here is None:
            wanted = part.distribution + (f"=={part.version}" if part.version else "")
            yield f"the {title} is not here; it came with {wanted}: pip install {wanted}"
        elif here.options != part.options:
            yield f"the options of the {title} were version {part.options}, are version {here.options}"
        elif here.sha256 != part.sha256:
            yield f"the {title} is not the same code as then ({here.distribution} {here.version})".replace(" )", ")")


def _options(value: Any) -> Iterator[Options]:
    """All options objects in a recipe, nested ones included."""
    if isinstance(value, Options):
        yield value
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _options(getattr(value, name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _options(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _options(item)


def _title(part: Registered) -> str:
    return f"{part.kind} {part.name}"
