"""The code a run depends on: which distribution a plugin came with, its version, and a hash of its files."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from types import ModuleType

from pluggy import PluginManager
from pydantic import BaseModel, ConfigDict

from kit.hookspecs import PROJECT
from kit.plugins import OWN, LoadedPlugin

KIT = OWN
"""The kit's own distribution, which first-party plugins share: a change to one of them is no change to the others."""
_ACTING = frozenset({"kit_recipe_loaded", "kit_model_built", "kit_callbacks"})
"""The hooks that are called in every run, whichever parts its recipe names."""


class Source(BaseModel):
    """Where some code came from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    distribution: str | None
    """What pip calls it; None for code that was not installed."""
    version: str | None
    sha256: str
    """Of all its files, names and contents."""
    acts: bool = False
    """Whether it is a plugin that listens to what runs do, and so may change one that uses none of its parts."""


def plugin_sources(plugins: Iterable[LoadedPlugin]) -> dict[str, Source]:
    """The sources of the plugins that are in use, by name, for a lock."""
    sources = {}
    for plugin in plugins:
        if plugin.status == "loaded":
            loaded = plugin.load()
            module = loaded if isinstance(loaded, ModuleType) else type(loaded).__module__
            source = source_of(module, None if plugin.given else plugin.distribution)
            sources[plugin.name] = source.model_copy(update={"acts": _acts(loaded)})
    return sources


def _acts(plugin: object) -> bool:
    manager = PluginManager(PROJECT)
    marked = {name: manager.parse_hookimpl_opts(plugin, name) for name in dir(plugin)}
    return any((options.get("specname") or name) in _ACTING for name, options in marked.items() if options is not None)


def source_of(module: ModuleType | str, distribution: str | None = None) -> Source:
    """Describe a plugin's module; the distribution is looked up where it is not given."""
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
    """The files of a module, or of the whole package that it is the door of; also right for an editable install."""
    if isinstance(module, str) and module in sys.modules:
        module = sys.modules[module]  # also a script or a notebook, of which no specification tells
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
    """What an ordinary install put in place: its other modules count too. An editable one lists none of them."""
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
