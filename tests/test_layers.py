"""The layers of the house: which package imports which, what a file may be called, and what stays out of the core."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
CORE = sorted((ROOT / "kit").rglob("*.py"))
PARTS = sorted((ROOT / "plugins").rglob("*.py"))
PACKAGES = sorted(path.parent.name for path in (ROOT / "plugins").glob("kit_*/__init__.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

AT_THE_ROOT = {"__init__.py", "__init__.pyi", "__main__.py", "errors.py", "hookspecs.py", "kit.py", "py.typed"}
"""The only files beside the packages of `kit`."""
KERNEL_API = {"allocator", "attention", "decoding", "devices", "dropout", "linear", "padding", "rng_state"}
"""The modules of `kit.kernels` for the other packages; the rest are implementations that these modules choose among."""
OWNS_KERNELS: set[str] = set()
"""The packages under `plugins` that bring kernels, and so know processors and devices."""
PROCESSOR_WORDS = {"avx", "avx2", "avx512", "mkl", "mkldnn", "onednn", "openmp", "simd"}
DEVICE_MODULES = {"cuda", "mps", "xpu", "backends"}
"""The modules of torch that belong to one device."""
MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_THE_CORE = 23_500
"""Without `kit.laws`: the lines of Python, C++, JavaScript, CSS and HTML."""


class Import(NamedTuple):
    """One import of a module, and where it stands."""

    module: str
    path: Path
    line: int


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path, package: str = "kit", *, type_checking: bool = True) -> Iterator[Import]:
    """The modules that a file imports, also inside functions; of names imported from the root the modules they are."""
    tree = ast.parse(path.read_text())
    only_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    root = next((parent for parent in path.parents if parent.name == package), None)
    for node in ast.walk(tree):
        if not type_checking and id(node) in only_types:
            continue
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, path, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: imports are absolute"
            yield Import(str(node.module), path, node.lineno)
            if root is None or str(node.module).partition(".")[0] != package:
                continue
            folder = root.joinpath(*str(node.module).split(".")[1:])
            for alias in node.names:
                if (folder / alias.name).is_dir() or (folder / f"{alias.name}.py").exists():
                    yield Import(f"{node.module}.{alias.name}", path, node.lineno)


def package_graph(root: Path) -> dict[str, dict[str, Import]]:
    """For each package (or module) below a root package: those that it imports, with one import of each."""
    graph: dict[str, dict[str, Import]] = {}
    for path in sorted(root.rglob("*.py")):
        own = path.relative_to(root).with_suffix("").parts[0]
        edges = graph.setdefault(own, {})
        for found in imports(path, root.name, type_checking=False):
            steps = found.module.split(".")
            if steps[0] == root.name and len(steps) > 1 and steps[1] != own:
                edges.setdefault(steps[1], found)
    return graph


def cycle(graph: dict[str, dict[str, Import]]) -> list[Import]:
    """The imports along one cycle of packages; empty if there is none."""
    finished: set[str] = set()

    def visit(name: str, way: list[str]) -> list[Import]:
        if name in way:
            ring = [*way[way.index(name) :], name]
            return [graph[one][other] for one, other in pairwise(ring)]
        if name in finished:
            return []
        for other in graph.get(name, {}):
            if found := visit(other, [*way, name]):
                return found
        finished.add(name)
        return []

    return next((found for name in graph if (found := visit(name, []))), [])


def shown(found: list[Import]) -> str:
    return "\n".join(f"{each.path}:{each.line} imports {each.module}" for each in found)


def quiet(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_packages_of_the_core_form_no_cycle():
    found = cycle(package_graph(ROOT / "kit"))
    assert not found, f"packages import each other in a circle:\n{shown(found)}"


def test_a_cycle_through_a_lazy_import_is_found_and_shown(tmp_path):
    files = {
        "low/__init__.py": "",
        "low/one.py": "def use():\n    from house.high.two import Two\n",
        "high/__init__.py": "",
        "high/two.py": "from typing import TYPE_CHECKING\n\nfrom house.middle import three\n",
        "middle/__init__.py": "",
        "middle/three.py": "from house import low\n",
    }
    for name, text in files.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    text = shown(cycle(package_graph(tmp_path / "house")))
    assert f"{tmp_path}/house/low/one.py:2 imports house.high" in text
    assert f"{tmp_path}/house/middle/three.py:1 imports house.low" in text and len(text.splitlines()) == 3
    hint = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from house.high.two import Two\n"
    (tmp_path / "house" / "low" / "one.py").write_text(hint)
    assert cycle(package_graph(tmp_path / "house")) == []


def test_no_loose_modules_at_the_root():
    found = {path.name for path in (ROOT / "kit").iterdir() if path.is_file()}
    assert found == AT_THE_ROOT, "a module belongs into a package"


@pytest.mark.parametrize("path", CORE, ids=relative)
def test_the_core_knows_no_plugin(path):
    for found in imports(path):
        assert found.module.partition(".")[0] not in PACKAGES, f"{relative(path)}:{found.line} imports {found.module}"


@pytest.mark.parametrize("path", CORE, ids=relative)
def test_only_commands_import_commands(path):
    if path.relative_to(ROOT / "kit").parts[0] not in ("cli", "__main__.py"):
        assert not [found for found in imports(path) if found.module.startswith("kit.cli")]


@pytest.mark.parametrize("path", CORE, ids=relative)
def test_kernels_are_imported_through_their_api(path):
    if path.relative_to(ROOT / "kit").parts[0] == "kernels":
        return
    for found in imports(path):
        steps = found.module.split(".")
        if steps[:2] == ["kit", "kernels"] and len(steps) > 2:
            assert steps[2] in KERNEL_API, f"{relative(path)}:{found.line} imports {found.module}, an implementation"


@pytest.mark.parametrize("path", CORE + PARTS, ids=relative)
def test_only_kernels_know_processors_and_devices(path):
    owner = path.relative_to(ROOT).parts[1]
    if owner == "kernels" or owner in OWNS_KERNELS:
        return
    named = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "torch" and node.attr in DEVICE_MODULES:
            named.append(f"{node.lineno}: torch.{node.attr}")
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            word = node.value.partition(":")[0].lower()
            if word == "cuda" or word in PROCESSOR_WORDS:
                named.append(f"{node.lineno}: {node.value!r}")
        if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("device.type") and path in CORE:
            named.append(f"{node.lineno}: {ast.unparse(node)}")
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if PROCESSOR_WORDS & set(name.lower().split("_")):
            named.append(f"{node.lineno}: {name}")
    assert not named, f"{relative(path)}: {', '.join(named)}; ask kit.kernels.devices"


@pytest.mark.parametrize("path", PARTS, ids=relative)
def test_a_plugin_uses_the_public_kit_and_itself(path):
    own = path.relative_to(ROOT / "plugins").parts[0]
    for found in imports(path):
        name, top = found.module, found.module.partition(".")[0]
        public = name in ("kit", "kit.cli.console") or name.split(".")[:2] == ["kit", "laws"]
        assert public or top != "kit", f"{relative(path)}:{found.line} imports {name}; wanted: from kit import ..."
        assert top == own or top not in PACKAGES, f"{relative(path)}:{found.line} imports {name}, another plugin"


@pytest.mark.parametrize("path", CORE + PARTS, ids=relative)
def test_a_file_has_a_telling_name_a_purpose_and_an_end(path):
    assert path.stem not in {"utils", "util", "common", "helpers", "helper", "base", "misc"}
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), (
        f"{relative(path)} does not open with a sentence that says what it is for"
    )
    assert len(text.splitlines()) <= MOST_LINES_OF_A_FILE, f"{relative(path)} is too long for one idea"


def test_the_core_is_small():
    kinds = {".py", ".cpp", ".h", ".js", ".css", ".html"}
    files = [path for path in (ROOT / "kit").rglob("*") if path.suffix in kinds]
    lines = sum(
        len(path.read_text().splitlines()) for path in files if path.relative_to(ROOT / "kit").parts[0] != "laws"
    )
    assert lines <= MOST_LINES_OF_THE_CORE, f"{lines:,} lines; what is a tool or a variant is a plugin"


def test_a_kit_is_made_without_torch():
    quiet("import kit, sys; from kit import Kit; Kit(); assert 'torch' not in sys.modules")


def test_hooks_are_called_without_torch():
    call = "Kit().hooks.kit_commands(app=typer.Typer())"
    quiet(f"import sys, typer; from kit import Kit; {call}; assert 'torch' not in sys.modules")


def test_what_reads_a_recipe_does_not_import_torch():
    names = ["errors", "hookspecs", *_modules("plugin"), *_modules("recipe")]
    names.remove("recipe.parts")  # the factory of objectives and optimizers
    code = "\n".join(f"import kit.{name}; assert 'torch' not in sys.modules, 'kit.{name}'" for name in names)
    quiet(f"import sys\n{code}")


def _modules(package: str) -> list[str]:
    return [
        f"{package}.{path.stem}".removesuffix(".__init__") for path in sorted((ROOT / "kit" / package).glob("*.py"))
    ]


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
    generic = {"none", "layer", "linear", "relative"}  # words that mean something else in the core too
    variants = {part.name for kind in kinds for part in registry.components(kind)} - generic
    assert {"softmax", "sinusoidal"} <= variants
    named = []
    for path in CORE:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value in variants:
                named.append(f"{relative(path)}:{node.lineno}: {node.value!r}")
    assert named == []
