"""A stranger's wheel beside the kit's own, in a fresh environment: no editable install, no path into this tree."""

from pathlib import Path

import pytest
from processes.virtual_environments import Environment, build

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "third_party" / "kit-sample-distance"

pytestmark = pytest.mark.xdist_group("wheel")


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
from kit.model.builder import ModelBuilder

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
    return ModelBuilder(registry).model(section).eval()(target=torch.tensor([ids]))[0].double()

ids = [1, 2, 3, 4, 5, 6, 7, 8]
before, changed, steeper = scores(0.5, ids), scores(0.5, [9, *ids[1:]]), scores(2.0, ids)
moved = lambda other: ((before - other).abs().amax(-1) > 0).tolist()
print(json.dumps([moved(changed), moved(steeper)]))
"""


def test_a_model_made_with_parts_of_a_stranger_obeys_them(environment):
    by_token, by_rate = environment.answer(MODEL)
    assert by_token == [True, True, True, False, False, False, False, False], "only tokens within reach see the first"
    assert by_rate == [False, True, True, True, True, True, True, True], "a lone token has no distance to fade"
