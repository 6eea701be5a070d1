"""Validation of an imported plugin: its API level, its hook implementations and the component classes it returns."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args, get_origin

from pluggy import PluginManager
from pydantic import TypeAdapter, ValidationError

from kit.hookspecs import API_LEVEL, PROJECT
from kit.plugin.component import Component, Options

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_YAML_WORDS = frozenset({"null", "true", "false"})


def level_problems(plugin: object) -> Iterator[str]:
    """The problems of the API level that a plugin declares."""
    level = getattr(plugin, "kit_api", None)
    if level is None:
        yield f"it does not say which API level it was written for; wanted: kit_api = {API_LEVEL} beside its hooks"
    elif not isinstance(level, int) or isinstance(level, bool):
        yield f"kit_api is {level!r}; wanted a whole number, kit_api = {API_LEVEL}"
    elif level > API_LEVEL:
        yield f"it was written for API level {level} and this kit has level {API_LEVEL}; a newer kitformer is needed"
    elif level < API_LEVEL:
        yield f"it was written for API level {level} and this kit has level {API_LEVEL}; a newer one is needed"


def hook_problems(plugin: object, manager: PluginManager) -> Iterator[str]:
    """The problems of its hooks: misspelt, not marked with @hookimpl, with unknown arguments, or none at all."""
    if inspect.isclass(plugin):
        yield f"its entry point is the class {plugin.__name__}; wanted a module, or an instance of the class"
        return
    hooks = [name for name, caller in vars(manager.hook).items() if caller.has_spec()]
    marked = False
    for attribute in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, attribute)
        if options is not None:
            marked = True
            name = options.get("specname") or attribute
            if name in hooks:
                yield from _implementation_problems(name, getattr(plugin, attribute), options, manager)
            elif not options.get("optionalhook"):
                yield f"{name} is no hook of the kit; {_suggestion(name, hooks)}"
        elif attribute.startswith(f"{PROJECT}_") and inspect.isroutine(function := getattr(plugin, attribute)):
            near = get_close_matches(attribute, hooks, n=1, cutoff=0.85)
            if near and getattr(function, "__module__", None) == getattr(plugin, "__name__", type(plugin).__module__):
                marked = True
                yield f"{attribute} is not marked as a hook, so it is never called; write @hookimpl above def {near[0]}"
    if not marked:
        yield "it implements no hook; wanted at least one function marked with @hookimpl, such as kit_components"


def part_problems(returned: object) -> Iterator[str]:
    """The problems of what `kit_components` returned."""
    if not isinstance(returned, Iterable) or isinstance(returned, (str, bytes, type)):
        yield f"kit_components returned {returned!r}; wanted a list of classes"
        return
    seen: dict[tuple[str, str], type] = {}
    for item in returned:
        problem = _part_problem(item)
        if problem is not None:
            yield problem
            continue
        other = seen.setdefault((item.kind, item.name()), item)
        if other is not item:
            yield f"{other.__name__} and {item.__name__} are both the {item.kind} {item.name()!r}"


def is_part(item: object) -> bool:
    """Whether this is a valid component class, with a kind and a name."""
    return _part_problem(item) is None


def _implementation_problems(name: str, function: Any, options: Any, manager: PluginManager) -> Iterator[str]:
    specification = getattr(manager.hook, name).spec
    wanted = [argument for argument in specification.argnames if argument != "self"]
    unknown = [argument for argument in _parameters(function) if argument not in wanted]
    if unknown:
        has = f"it has {', '.join(wanted)}" if wanted else "it has none"
        yield f"{name} asks for the argument {unknown[0]}, which this hook does not have; {has}"
    wraps = options.get("wrapper") or options.get("hookwrapper")
    if wraps and name == f"{PROJECT}_components":
        yield f"{name} is marked as a wrapper; wanted a function that returns this plugin's own parts"


def _parameters(function: Any) -> list[str]:
    needed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [item.name for item in parameters if item.kind in needed and item.default is inspect.Parameter.empty]


def _part_problem(item: Any) -> str | None:
    """Why this is not a valid component class; None if it is one."""
    if not inspect.isclass(item) or not issubclass(item, Component):
        return f"kit_components returned {_shown(item)}, which is no component; wanted classes derived from a contract"
    name = item.__name__
    kind = getattr(item, "kind", None)
    if not isinstance(kind, str) or not _NAME.fullmatch(kind):
        return f"{name} has the kind {kind!r}; wanted a class derived from a contract, such as kit.Mask"
    options_type = getattr(item, "options_type", None)
    if not inspect.isclass(options_type) or not issubclass(options_type, Options):
        return f"{name}.options_type is {_shown(options_type)}; wanted a class derived from kit.Options"
    use = options_type.model_fields["use"]
    names = get_args(use.annotation) if get_origin(use.annotation) is Literal else ()
    if len(names) != 1 or not isinstance(names[0], str):
        return f'{options_type.__name__} gives {name} no name; wanted: use: Literal["..."] = "..."'
    if not _NAME.fullmatch(names[0]) or names[0] in _YAML_WORDS:
        return f"{name} is called {names[0]!r}; wanted a small letter followed by small letters, digits, _ and -"
    if use.default != names[0]:
        return f'{options_type.__name__}.use has no default; wanted: use: Literal["{names[0]}"] = "{names[0]}"'
    version = getattr(item, "version", None)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        return f"{name}.version is {version!r}; wanted a whole number, 1 or more"
    missing = [method for method in dir(item) if getattr(getattr(item, method, None), "__isabstractmethod__", False)]
    if missing:
        return f"{name} does not define {', '.join(missing)}, which every {kind} has"
    declared = getattr(item, "capabilities", None)
    try:
        if is_dataclass(declared) and not isinstance(declared, type):
            TypeAdapter(type(declared)).validate_python(vars(declared))
    except ValidationError as error:
        (first, *_), prefix = error.errors(), "Input should be "
        found = f"{name}.capabilities: {first['loc'][0]} has {first['input']!r}"
        return f"{found}; wanted {first['msg'].removeprefix(prefix)}"
    return None


def _shown(item: object) -> str:
    return f"the class {item.__name__}" if inspect.isclass(item) else repr(item)


def _suggestion(name: str, hooks: list[str]) -> str:
    near = get_close_matches(name, hooks, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"the hooks are {', '.join(sorted(hooks))}"
