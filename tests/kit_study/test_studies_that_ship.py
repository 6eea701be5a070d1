"""The nine studies at their quick size: they run, and what theory says of them holds already there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit_study.budget import CostCounter
from kit_study.planning import Plan
from kit_study.results import Report, report
from kit_study.runner import run_study
from kit_study.study_file import Study, read_study

FOLDER = Path(__file__).parents[2] / "recipes" / "studies"
STUDIES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
NINE = ["gradient_path", "heads", "long_range", "norm_placement", "parallel", "positions", "scaling_factor"]
NINE += ["shakespeare", "static_contextual"]
EQUAL = ["gradient_path", "long_range", "parallel", "static_contextual"]


@pytest.fixture(autouse=True)
def _text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few lines in place of the text that one of them reads."""
    lines = [f"line {number} of a play, spoken by nobody in particular" for number in range(60)]
    path = tmp_path / "data" / "tinyshakespeare" / "input.txt"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines))
    monkeypatch.setenv("KIT_DATA", str(tmp_path / "data"))


def described(name: str, kit, *, quick: bool = False) -> Study:
    return read_study(FOLDER / f"{name}.yaml", kit.registry, quick=quick)


def quick(name: str, kit, tmp_path: Path) -> Report:
    made = Plan(described(name, kit, quick=True), kit, tmp_path / "studies")
    said: list[str] = []
    assert run_study(made, say=said.append) == 0, said
    return report(made)


def figure(found: Report, name: str) -> dict[str, float]:
    (outcome,) = found.outcomes
    return {row.label: row.figures()[name].mean for row in outcome.rows if name in row.figures()}


def test_all_nine_are_there():
    assert STUDIES == NINE


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_right_as_it_stands(kit, name):
    study = read_study(FOLDER / f"{name}.yaml", kit.registry)
    assert study.name == name and study.section.claim and study.section.setup
    assert len(study.seeds) >= 3
    made = Plan(study, kit, Path("studies"))
    if study.section.budget.same == "steps":
        assert all(each.recipe(study, kit) for each in made.combinations)


@pytest.mark.parametrize(
    "name", [name for name in STUDIES if name not in ("gradient_path", "static_contextual", "long_range")]
)
def test_a_study_runs_at_its_quick_size(kit, tmp_path, name):
    found = quick(name, kit, tmp_path)
    assert found.complete
    for outcome in found.outcomes:
        assert all(len(row.values) == 2 and not row.failures for row in outcome.rows)
        assert outcome.best


def test_distance_costs_a_recurrence_and_not_attention(kit, tmp_path):
    found = quick("gradient_path", kit, tmp_path)
    slope = figure(found, "start.gradient_by_distance.slope")
    assert slope["rnn"] < -0.05 and figure(found, "start.gradient_by_distance.fit")["rnn"] > 0.5
    assert abs(slope["transformer"]) < 0.01
    assert slope["lstm"] < -0.05 and slope["gru"] < -0.05
    moves = figure(found, "start.path_length.farthest")
    assert moves["transformer"] == 1 and moves["rnn"] == 127
    assert moves["window"] == -(-127 // 15)  # a window of 16 keys reaches 15 back
    waits = figure(found, "start.path_length.sequential")
    assert waits["transformer"] == 2 and waits["rnn"] == 128


def test_warm_up_is_tested_at_the_quick_size_too(kit, tmp_path):
    found = quick("norm_placement", kit, tmp_path)
    warmups = {
        each.labels["warmup"]: each.recipe(found.plan.study, kit).training.schedule.warmup
        for each in found.plan.combinations
    }
    assert warmups == {"none": 0, "100 steps": 2}
    with_none, with_warmup = ({row.label: row.values for row in outcome.rows} for outcome in found.outcomes)
    assert all(with_none[label][seed] != with_warmup[label][seed] for label in ("pre", "post") for seed in (0, 1))


def test_static_vectors_are_left_with_chance(kit, tmp_path):
    pytest.importorskip("gensim")
    found = quick("static_contextual", kit, tmp_path)
    accuracy = figure(found, "senses.accuracy")
    alike = figure(found, "senses.self_similarity")
    for name in ("word2vec", "glove"):
        assert abs(accuracy[name] - 0.5) < 0.1
        assert alike[name] == pytest.approx(1.0)
    assert all(accuracy[name] > 0.7 for name in ("elmo-like", "bert-like")), accuracy
    (outcome,) = found.outcomes
    sizes = {row.label: row.mean("parameters") for row in outcome.rows}
    assert abs(sizes["elmo-like"] / sizes["bert-like"] - 1) <= 0.05, sizes
    # Static vectors have a number a word and place, whatever model the recipe describes.
    assert sizes["word2vec"] == sizes["glove"] < 0.5 * sizes["bert-like"], sizes


def test_each_head_width_of_the_scaling_factor_has_a_rate_of_its_own(kit, tmp_path):
    found = quick("scaling_factor", kit, tmp_path)
    assert found.plan.study.section.sweep.values == [6e-4, 2e-3]
    for number in range(len(found.plan.combinations)):
        assert [cell.swept for cell in found.plan.sweeps[number]] == [6e-4, 2e-3]
        assert found.plan.chosen(number).swept in (6e-4, 2e-3)


def test_what_is_solved_for_is_what_is_built(kit, tmp_path):
    found = quick("long_range", kit, tmp_path)
    (outcome,) = found.outcomes
    sizes = [row.mean("parameters") for row in outcome.rows]
    counter = CostCounter(kit, found.plan.study.folder)
    counted = [counter.parameters(each.recipe(found.plan.study, kit)) for each in found.plan.combinations]
    assert len(sizes) == 4 and counted == sizes


def test_four_studies_compare_stacks_of_equal_parameters(kit):
    assert [name for name in STUDIES if described(name, kit).section.budget.same == "parameters"] == EQUAL


@pytest.mark.parametrize("size", ["quick", pytest.param("whole", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EQUAL)
def test_stacks_of_equal_parameters_are_within_five_per_cent(kit, tmp_path, name, size):
    study = described(name, kit, quick=size == "quick")
    made, counter = Plan(study, kit, tmp_path / "studies"), CostCounter(kit, study.folder)
    sizes: dict[tuple[tuple[str, str], ...], dict[str, int]] = {}
    for each in made.combinations:
        label = each.labels[study.compared]
        sizes.setdefault(each.condition(study.compared), {})[label] = counter.parameters(each.recipe(study, kit))
    for found in sizes.values():
        base = found[study.base_label()]
        assert len(found) > 2 and all(abs(count / base - 1) <= 0.05 for count in found.values()), found
