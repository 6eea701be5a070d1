"""The public interface as a list of lines, recorded in docs/reference/api.txt, so that breaking it changes that file.

Written by: python docs/generating/public_api.py > docs/reference/api.txt
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import kit
from kit import hookspecs


def public_api() -> list[str]:
    """Every public name, the parameters of functions and methods, the fields of classes, and every hook."""
    lines = [line for name in kit.__all__ for line in _lines(name, getattr(kit, name))]
    hooks = [name for name in vars(hookspecs) if name.startswith(f"{hookspecs.PROJECT}_")]
    lines += [f"hook {name}{_parameters(getattr(hookspecs, name))}" for name in hooks]
    return sorted(dict.fromkeys(lines))


def _lines(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"{name}{_parameters(value)}" if inspect.isroutine(value) else name
        return
    yield f"class {name}"
    public = {getattr(kit, each) for each in kit.__all__ if inspect.isclass(getattr(kit, each))}
    for owner in value.__mro__:
        # What a public ancestor has is listed with that ancestor.
        if not owner.__module__.startswith("kit.") or (owner is not value and owner in public):
            continue
        for member in inspect.get_annotations(owner):
            if not member.startswith("_"):
                yield f"{name}.{member}"
        for member, found in vars(owner).items():
            if not member.startswith("_") or member == "__init__":
                yield from _member(f"{name}.{member}", found)


def _member(title: str, found: Any) -> Iterator[str]:
    function = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
    if inspect.isfunction(function):
        yield f"{title}{_parameters(function)}"
    elif isinstance(found, property) or not callable(found):
        yield title


def _parameters(function: Any) -> str:
    """Names, which of them have a default, and how they may be passed; types may become wider without a break."""
    shown = []
    only_named = False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not only_named:
            only_named = True
            shown.append("*")
        positional, named = parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD
        star = "*" if parameter.kind is positional else "**" if parameter.kind is named else ""
        only_named = only_named or star == "*"
        shown.append(f"{star}{name}" + ("=" if parameter.default is not inspect.Parameter.empty else ""))
    return f"({', '.join(shown)})"


if __name__ == "__main__":
    print("\n".join(public_api()))
