"""A study file is read as strictly as a recipe, and says all that is wrong with its lines."""

from __future__ import annotations

import pytest

from kit import KitError, RecipeError
from kit_study.study_file import read_study

SEARCH = {"space": {"model.width": {"choices": [8, 16]}}}


def labelled(path, value) -> dict:
    return {"what": {"values": {"plain": {}, "other": {path: value}}}}


def refused(write, kit, **changes) -> str:
    with pytest.raises(RecipeError) as caught:
        read_study(write(**changes), kit.registry)
    return str(caught.value)


def test_a_key_that_is_not_there_is_named_with_its_line_and_the_nearest(write, kit):
    text = refused(write, kit, sedes=3)
    assert "sedes" in text and "did you mean seeds?" in text and "study.yaml:" in text


def test_every_mistake_is_told_at_once(write, kit):
    text = refused(write, kit, seeds="three", metric=5)
    assert "seeds" in text and "metric" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"recipe": "other.yaml"}, "there is no recipe"),
        ({"base": "rmz"}, "wanted one of layer, rms"),
        ({"compare": "norms"}, "wanted one of the axes: norm"),
        ({"metric": "acuracy"}, "there is no metric"),
        ({"metric": "speed.train_at_32"}, "which way is up"),
        ({"axes": {}}, "nothing is varied"),
        ({"axes": {"norm": {"values": ["layer"]}}}, "needs a path"),
        ({"axes": {"norm": {"values": {"a": 3}}}}, "wants paths with values"),
        ({"measures": ["path_lenght"]}, "path_length"),
        ({"quick": {"axes": {"norm": ["rns"]}}}, "wanted layer, rms"),
        ({"search": {"space": {"model.width": {"low": 8}}}}, "low and high"),
        ({"sweep": {"values": [0.1]}, "axes": None, "search": SEARCH}, "a search and a sweep cannot be had together"),
        ({"budget": {"same": "parameters"}, "axes": None, "search": SEARCH}, "no base to be made equal to"),
        ({"changes": {"study.when": ["start"]}}, "write when in the study file itself"),
        ({"axes": labelled("study.seeds", 5)}, "'other' sets 'study.seeds', wanted one of study.measures, study.when"),
        ({"axes": labelled("study.budget", {"same": "flops"})}, "budget is the same for all cells"),
        ({"axes": labelled("study.budget.same", "flops")}, "budget is the same for all cells"),
        ({"axes": labelled("study.metric", "accuracy")}, "metric is the same for all cells"),
        ({"quick": {"changes": {"study.seeds": 1}}}, "seeds is the same for all cells"),
        ({"quick": {"axes": {"norm": {"rms": {"study.seeds": 1}}}}}, "seeds is the same for all cells"),
        ({"sweep": {"path": "study.seeds", "values": [1]}}, "wanted a path of the recipe"),
        ({"axes": None, "search": {"space": {"study.seeds": {"choices": [1]}}}}, "wanted a path of the recipe"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_cannot_be_is_refused(write, kit, changes, said):
    assert said in refused(write, kit, **changes)


def test_a_file_that_is_not_there_names_its_neighbour(write, kit):
    path = write()
    with pytest.raises(KitError, match=r"did you mean .*study\.yaml"):
        read_study(path.with_name("studi.yaml"), kit.registry)


def test_labels_may_set_several_paths_and_the_study_itself(plan):
    values = {"small": {"model.width": 8, "model.decoder.depth": 1}, "looked": {"study.when": ["start"]}}
    made = plan(axes={"size": {"values": values}}, measures=["path_length"])
    small, looked = made.combinations
    assert small.recipe(made.study, made.kit).model.width == 8
    assert small.section.when == ["end"] and looked.section.when == ["start"]
    assert looked.recipe(made.study, made.kit).model.width == 16


def test_a_mistake_in_a_value_is_told_as_in_a_recipe(plan):
    made = plan(axes={"norm": {"path": "model.norm", "values": ["layer", "rmz"]}})
    with pytest.raises(RecipeError, match="did you mean rms"):
        made.cells(1)
