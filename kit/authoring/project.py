"""Writes a package with one part: everything that is needed to test it, share it and use it in a recipe."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from kit.authoring.recipes import recipe_words
from kit.errors import KitError
from kit.hookspecs import API_LEVEL
from kit.kit import Kit

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_TOKEN = re.compile(r"<<([^<>]+)>>")
_TEMPLATES = files("kit.authoring") / "templates"
_FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
    ".github/workflows/tests.yml": "tests.yml.txt",
    "src/<<module>>/__init__.py": "init.py.txt",
    "src/<<module>>/<<file>>.py": "parts/<<kind>>.py.txt",
    "recipes/<<file>>.yaml": "recipe.yaml.txt",
    "tests/test_laws.py": "test_laws.py.txt",
}
"""What is written, and the template that it is made from."""


def kinds() -> list[str]:
    """The kinds that a package can be written for."""
    found = (_TEMPLATES / "parts").iterdir()
    return sorted(file.name.removesuffix(".py.txt") for file in found if file.name.endswith(".py.txt"))


def write_project(name: str, kind: str, folder: Path, kit: Kit | None = None) -> Path:
    """Write a package for one part of a kind; returns its folder, `kit-NAME` within the given one."""
    kit = kit or Kit()
    plain = name.removeprefix("kit-").removeprefix("kit_")
    _check(plain, kind, kit)
    words = _words(plain, kind, kit)
    made = folder / words["distribution"]
    if made.exists() and any(made.iterdir()):
        raise KitError(
            f"{made} is there already, and not empty\n    choose another name, or another folder: --in FOLDER"
        )
    for path, template in _FILES.items():
        text = (_TEMPLATES / _filled(template, words)).read_text(encoding="utf-8")
        file = made / _filled(path, words)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_filled(text, words), encoding="utf-8")
    (made / "src" / words["module"] / "py.typed").touch()
    return made


def _check(name: str, kind: str, kit: Kit) -> None:
    if kind not in kinds():
        raise KitError(f"no package can be written for the kind {kind!r}\n    the kinds are {', '.join(kinds())}")
    if not _NAME.fullmatch(name):
        raise KitError(
            f"a part cannot be called {name!r}; wanted small letters and digits, with - or _ between, such as fading"
        )
    module = f"kit_{name.replace('-', '_')}"
    if importlib.util.find_spec(module) is not None:
        raise KitError(f"a package {module} is installed already\n    choose another name")
    taken = [part for part in kit.registry.components(kind) if part.name == name]
    if taken:
        raise KitError(f"{taken[0].origin} brings a {kind} called {name!r} already\n    choose another name")


def _words(name: str, kind: str, kit: Kit) -> dict[str, str]:
    """What stands for each token in the templates."""
    title = "".join(step.capitalize() for step in re.split("[-_]", name))
    described = {"feedforward": "feed-forward layer"}.get(kind, kind)
    return {
        "name": name,
        "kind": kind,
        "Name": title,
        "Class": f"{title}{kind.capitalize()}",
        "A kind": f"{'An' if kind[0] in 'aeiou' else 'A'} {described}",
        "file": name.replace("-", "_"),
        "entry": name,
        "module": f"kit_{name.replace('-', '_')}",
        "distribution": f"kit-{name.replace('_', '-')}",
        "api": str(API_LEVEL),
        "kit version": _kit_version(),
        **recipe_words(name, kind, kit.registry),
    }


def _kit_version() -> str:
    try:
        return version("kitformer")
    except PackageNotFoundError:
        import kit

        return kit.__version__


def _filled(text: str, words: dict[str, str]) -> str:
    """Tokens filled in; a line whose only value would be empty is left out."""
    lines = []
    for line in text.splitlines(keepends=True):
        if any(words[token] == "" for token in _TOKEN.findall(line)):
            continue
        lines.append(_TOKEN.sub(lambda found: words[found[1]], line))
    return "".join(lines)
