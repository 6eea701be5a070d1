"""Who may import whom, what a file may be called, and what stays out of the core."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = sorted((ROOT / "kit").rglob("*.py"))
PARTS = sorted((ROOT / "plugins").rglob("*.py"))
PACKAGES = sorted(path.parent.name for path in (ROOT / "plugins").glob("kit_*/__init__.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

ABOVE = {
    "data",
    "training",
    "decoding",
    "inspecting",
    "exchange",
    "exporting",
    "laws",
    "cli",
    "runs",
    "predicting",
    "evaluating",
    "studying",
    "serving",
}
NEVER_IMPORTS = {
    "errors": {"component", "contracts", "recipe", "model"} | ABOVE,
    "component": {"contracts", "recipe", "model", "registry", "plugins"} | ABOVE,
    "contracts": {"recipe", "model", "registry", "plugins", "kit"} | ABOVE - {"data"},
    "recipe": {"model"} | ABOVE - {"data"},
    "model": ABOVE - {"data"},
    "native": {"component", "contracts", "recipe", "model"} | ABOVE,
    "data": {"model", "recipe"} | ABOVE - {"data"},
    "decoding": {"training", "predicting", "evaluating", "serving", "cli"},
    "training": {"predicting", "evaluating", "serving", "cli"},
    "predicting": {"evaluating", "serving", "cli"},
    "evaluating": {"cli"},
    "inspecting": {"cli"},
    "exchange": {"cli"},
    "exporting": {"cli"},
    "laws": {"cli"},
    "studying": {"cli"},
    "serving": {"cli"},
}
"""For each area of the core, the areas that stand above it."""


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> Iterator[str]:
    """Every module that a file names in an import, wherever in the file it stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{relative(path)}:{node.lineno}: imports are absolute"
            yield str(node.module)
            if node.module == "kit":
                yield from (f"kit.{alias.name}" for alias in node.names if (ROOT / "kit" / alias.name).exists())


def top_level(path: Path) -> Iterator[str]:
    """The modules of `kit` that importing this file imports at once."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def quiet(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", CORE, ids=relative)
def test_the_core_knows_no_plugin(path):
    for name in imports(path):
        assert name.partition(".")[0] not in PACKAGES, f"{relative(path)} imports {name}"


@pytest.mark.parametrize("path", PARTS, ids=relative)
def test_a_plugin_uses_the_public_kit_and_itself(path):
    own = path.relative_to(ROOT / "plugins").parts[0]
    for name in imports(path):
        top = name.partition(".")[0]
        assert name == "kit" or top != "kit", f"{relative(path)} imports {name}; wanted: from kit import ..."
        assert top == own or top not in PACKAGES, f"{relative(path)} imports {name}, which is another plugin"


@pytest.mark.parametrize("path", CORE, ids=relative)
def test_the_core_is_layered(path):
    parts = path.relative_to(ROOT / "kit").with_suffix("").parts
    forbidden = NEVER_IMPORTS.get(parts[0], set())
    for name in top_level(path):
        steps = name.split(".")
        if steps[0] == "kit" and len(steps) > 1:
            assert steps[1] not in forbidden, f"{relative(path)} imports {name}, which stands above it"
            assert steps[1] != "cli" or parts[0] in ("cli", "__main__"), f"{relative(path)} imports the command line"


@pytest.mark.parametrize("path", CORE + PARTS, ids=relative)
def test_a_file_has_a_telling_name_a_purpose_and_an_end(path):
    assert path.stem not in {"utils", "util", "common", "helpers", "helper", "base", "misc"}
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), (
        f"{relative(path)} does not open with a sentence that says what it is for"
    )
    assert len(text.splitlines()) <= 250, f"{relative(path)} is too long for one idea"


def test_a_kit_is_made_without_torch():
    quiet("import kit, sys; from kit import Kit; Kit(); assert 'torch' not in sys.modules")


def test_hooks_are_called_without_torch():
    quiet("import sys; from kit import Kit; Kit().hooks.kit_commands(app=None); assert 'torch' not in sys.modules")


def test_what_reads_a_recipe_does_not_import_torch():
    names = ["component", "errors", "hookspecs", "plugins", "registry", "slots", "vetting"]
    names += [f"recipe.{path.stem}".removesuffix(".__init__") for path in (ROOT / "kit" / "recipe").glob("*.py")]
    code = "\n".join(f"import kit.{name}; assert 'torch' not in sys.modules, 'kit.{name}'" for name in names)
    quiet(f"import sys\n{code}")


def test_the_project_lists_every_plugin_package():
    assert not (ROOT / "plugins" / "__init__.py").exists()
    points = PROJECT["project"]["entry-points"]["kit.plugins"]
    assert points == {package.removeprefix("kit_"): package for package in PACKAGES}
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert sorted(packages) == ["kit", *(f"plugins/{package}" for package in PACKAGES)]


def test_the_core_names_no_variant():
    from kit import Kit

    registry = Kit().registry
    kinds = ("attention", "position", "norm", "residual", "feedforward")
    generic = {"none", "layer", "linear", "blocks", "relative"}  # words that mean something else in the core too
    variants = {part.name for kind in kinds for part in registry.components(kind)} - generic
    assert {"softmax", "sinusoidal"} <= variants
    named = []
    for path in CORE:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value in variants:
                named.append(f"{relative(path)}:{node.lineno}: {node.value!r}")
    assert named == []
