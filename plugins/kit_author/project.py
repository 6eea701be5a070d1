"""Project template: writes an installable package with one part, its tests, a recipe, a README and CI."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from kit import API_LEVEL, Kit, KitError, Registered, Registry

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_TOKEN = re.compile(r"<<([^<>]+)>>")
_TEMPLATES = files("kit_author") / "templates"
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
"""The path of each file of a project, and its template."""
SMALL_DATA = {"train": 2000, "validation": 50, "test": 50, "max_length": 8}
"""Sizes of the recipe's data, if it has these options: a minute of training on a laptop."""


def kinds() -> list[str]:
    """Returns the kinds that have a template."""
    found = (_TEMPLATES / "parts").iterdir()
    return sorted(file.name.removesuffix(".py.txt") for file in found if file.name.endswith(".py.txt"))


def write_project(name: str, kind: str, folder: Path, kit: Kit | None = None) -> Path:
    """Writes a package with one part of a kind; returns its folder, `kit-NAME` in `folder`."""
    kit = kit or Kit()
    part_name = name.removeprefix("kit-").removeprefix("kit_")
    _check_name(part_name, kind, kit)
    values = _token_values(part_name, kind, kit)
    target = folder / values["distribution"]
    if target.exists() and any(target.iterdir()):
        raise KitError(
            f"{target} is there already, and not empty\n    choose another name, or another folder: --in FOLDER"
        )
    texts = {f"src/{values['module']}/py.typed": ""}
    for path, template in _FILES.items():
        text = (_TEMPLATES / _substitute(template, values)).read_text(encoding="utf-8")
        texts[_substitute(path, values)] = _substitute(text, values)
    with _removed_if_unfinished(target):
        for path, text in texts.items():
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return target


@contextmanager
def _removed_if_unfinished(target: Path) -> Iterator[None]:
    """Removes what was written into a new or empty folder, and folders made for it, if the block raises."""
    made = [folder for folder in (target, *target.parents) if not folder.exists()]
    try:
        yield
    except BaseException as error:
        for path in list(target.iterdir()) if target.is_dir() else ():
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        with suppress(OSError):
            for folder in made:
                folder.rmdir()
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise KitError(f"{target} cannot be written: {reason}\n    choose another folder: --in FOLDER") from error
        raise


def _check_name(name: str, kind: str, kit: Kit) -> None:
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


def _token_values(name: str, kind: str, kit: Kit) -> dict[str, str]:
    """Returns the value of each template token."""
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
        **_recipe_values(name, kind, kit.registry),
    }


def _kit_version() -> str:
    try:
        return version("kitformer")
    except PackageNotFoundError:
        import kit

        return kit.__version__


def _substitute(text: str, values: dict[str, str]) -> str:
    """Substitutes template tokens; lines with an empty value are removed."""
    lines = []
    for line in text.splitlines(keepends=True):
        if any(values[token] == "" for token in _TOKEN.findall(line)):
            continue
        lines.append(_TOKEN.sub(lambda found: values[found[1]], line))
    return "".join(lines)


def _recipe_values(name: str, kind: str, registry: Registry) -> dict[str, str]:
    """Returns the YAML of each recipe slot: this part, and baselines of other kinds; empty values remove a line."""

    def chosen(of: str) -> str:
        return name if of == kind else _baseline(registry, of).name

    layer = (
        f"attention: {{use: {chosen('attention')}, heads: 4}}, feedforward: {chosen('feedforward')}, "
        f"residual: {chosen('residual')}"
    )
    masks = [_baseline(registry, "mask").name, *([name] if kind == "mask" else [])]
    values = {
        **{of: chosen(of) for of in ("attention", "position", "norm", "feedforward", "residual", "embedding", "head")},
        **{of: chosen(of) for of in ("tokenizer", "optimizer", "schedule")},
        "encoder": f"{{use: {name}, depth: 1}}" if kind == "stack" else f"{{depth: 1, {layer}}}",
        "masks": ", ".join(masks),
        "data": name if kind == "data" else _small_data(registry),
        "objective": name if kind == "objective" else "",
        "metrics": name if kind == "metric" else "",
        "regularizers": name if kind == "regularizer" else "",
        "search": _search(name, kind, registry),
    }
    return {**values, "usage": _usage(name, kind)}


def _baseline(registry: Registry, kind: str) -> Registered:
    """Returns the baseline of a kind, else any part of it."""
    parts = registry.components(kind)
    if not parts:
        raise KitError(f"no {kind} is installed, and the recipe of a new package needs one around its part")
    return registry.baseline(kind) or parts[0]


def _small_data(registry: Registry) -> str:
    data = _baseline(registry, "data")
    fields = data.component.options_type.model_fields
    small = "".join(f", {option}: {size}" for option, size in SMALL_DATA.items() if option in fields)
    return f"{{use: {data.name}{small}}}"


def _search(name: str, kind: str, registry: Registry) -> str:
    if kind == "search":
        return name
    if kind == "constraint":
        return f"{{use: {_baseline(registry, 'search').name}, constraints: [{name}]}}"
    return ""


def _usage(name: str, kind: str) -> str:
    """Returns the line of a recipe that selects the part."""
    lines = {
        "mask": f"masks: [{name}]",
        "metric": f"metrics: [{name}]",
        "stack": f"encoder: {{use: {name}}}",
        "constraint": f"search: {{constraints: [{name}]}}",
        "regularizer": f"model: {{regularizers: [{name}]}}",
        "optimizer": f"training: {{optimizer: {name}}}",
        "schedule": f"training: {{schedule: {name}}}",
        "objective": f"training: {{objective: {name}}}",
        "exporter": f"# no recipe names an exporter; it is for trained models: kit export RUN --to {name}",
        "probe": f"# no recipe names a probe; it is for trained models: kit inspect RUN, with the probe {name}",
        "measure": f"# a study names it among its measures: {name}",
    }
    return lines.get(kind, f"{kind}: {name}")
