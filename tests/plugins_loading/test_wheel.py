"""A stranger's wheel beside the kit's own, in a fresh environment: no editable install, no path into this tree."""

import json
import os
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "third_party" / "kit-sample-distance"

pytestmark = pytest.mark.xdist_group("wheel")


def build(project: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


class Environment:
    """A virtual environment that has the two wheels, and borrows what they depend on."""

    def __init__(self, folder: Path, wheels: list[Path]) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(self.python),
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
        ]
        subprocess.run([*pip, *map(str, wheels)], check=True, capture_output=True)
        (packages,) = folder.glob("lib/python*/site-packages")
        # A folder named in a .pth comes after the environment's own packages, and its own .pth files, which hold the
        # editable install, are not read.
        (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()) + "\n")

    def run(self, *arguments: str) -> str:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def answer(self, code: str) -> object:
        """What a piece of Python prints as JSON."""
        return json.loads(self.run("-c", f"import json\n{code}"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    wheels = [build(ROOT, folder / "kit"), build(SAMPLE, folder / "sample")]
    return Environment(folder / "environment", wheels)


def test_the_kit_is_the_one_from_the_wheel(environment):
    files = environment.answer(
        "import kit, kit_mask, kit_sample_distance\n"
        "print(json.dumps([m.__file__ for m in (kit, kit_mask, kit_sample_distance)]))"
    )
    assert all(Path(file).is_relative_to(environment.folder) for file in files)


def test_own_and_foreign_plugins_are_found_the_same_way(environment):
    plugins = environment.answer(
        "from kit import Kit\nprint(json.dumps([[p.distribution, p.name, p.status, p.error] for p in Kit().plugins]))"
    )
    own = {path.parent.name.removeprefix("kit_") for path in ROOT.glob("plugins/kit_*/__init__.py")}
    assert {name for distribution, name, _, _ in plugins if distribution == "kitformer"} == own
    assert ["kit-sample-distance", "distance", "loaded", None] in plugins
    assert [plugin for plugin in plugins if plugin[2] != "loaded"] == []


def test_the_part_of_a_stranger_is_found_by_both_names(environment):
    found = environment.answer(
        "from kit import Kit\nregistry = Kit().registry\n"
        "parts = [registry.find('mask', 'nearby'), registry.find('position', 'kit-sample-distance/fading')]\n"
        "print(json.dumps([[part.scoped, part.version] for part in parts]))"
    )
    assert found == [["kit-sample-distance/nearby", "0.2.1"], ["kit-sample-distance/fading", "0.2.1"]]


MODEL = """
import torch
from kit import Kit, ModelSection
from kit.model.assembly import Assembly

registry = Kit().registry

def options(kind, name, **values):
    return registry.find(kind, name).component.options_type(**values)

def scores(rate, ids):
    torch.manual_seed(0)
    stack = options(
        "stack", "transformer", depth=1, attention=options("attention", "softmax", heads=2),
        residual=options("residual", "pre"), masks=[options("mask", "nearby", reach=3)],
    )
    section = ModelSection(
        family="decoder", width=16, vocabulary=11, decoder=stack, norm=options("norm", "layer"),
        position=options("position", "fading", rate=rate),
    )
    return Assembly(registry).model(section).eval()(target=torch.tensor([ids]))[0].double()

ids = [1, 2, 3, 4, 5, 6, 7, 8]
before, changed, steeper = scores(0.5, ids), scores(0.5, [9, *ids[1:]]), scores(2.0, ids)
moved = lambda other: ((before - other).abs().amax(-1) > 0).tolist()
print(json.dumps([moved(changed), moved(steeper)]))
"""


def test_a_model_made_with_parts_of_a_stranger_obeys_them(environment):
    by_token, by_rate = environment.answer(MODEL)
    assert by_token == [True, True, True, False, False, False, False, False], "only tokens within reach see the first"
    assert by_rate == [False, True, True, True, True, True, True, True], "a lone token has no distance to fade"
