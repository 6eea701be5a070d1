"""Recipes that extend others, and overrides: what is merged, what is replaced, and where values come from."""

from pathlib import Path
from typing import Any

import pytest

from kit.errors import RecipeError
from kit.recipe.loading import Loaded, load_recipe

from .parts import AdditiveOptions, LayerOptions, LstmOptions, RmsOptions, SoftmaxOptions, registry

REGISTRY = registry()
BASE = """\
name: base
model:
  family: encoder
  width: 8
  norm: {use: layer, epsilon: 0.5, bias: false}
  encoder:
    depth: 2
    attention: {heads: 4, kv_heads: 2}
    masks: [causal, {use: any, masks: [causal]}]
    layers: [{repeat: 2}, {attention: {use: softmax, heads: 2}}]
"""


def load(folder: Path, over: str, *overrides: str, base: str = BASE) -> Loaded:
    (folder / "base.yaml").write_text(base)
    (folder / "over.yaml").write_text(over)
    return load_recipe(folder / "over.yaml", REGISTRY, overrides)


def extended(folder: Path, model: str, *overrides: str, base: str = BASE) -> Any:
    return load(folder, f"extends: base.yaml\nmodel: {model}\n", *overrides, base=base).recipe.model


def test_mappings_merge_and_the_extending_file_wins(tmp_path: Path) -> None:
    loaded = load(tmp_path, "extends: base.yaml\nname: over\nmodel:\n  width: 16\n  encoder: {depth: 3}\n")
    encoder: Any = loaded.recipe.model.encoder
    assert (loaded.recipe.name, loaded.recipe.model.width, encoder.depth) == ("over", 16, 3)
    assert (encoder.attention.heads, encoder.attention.kv_heads) == (4, 2)
    assert loaded.locate(("model", "width")) == (str(tmp_path / "over.yaml"), 4)
    assert loaded.locate(("model", "encoder", "attention", "heads")) == (str(tmp_path / "base.yaml"), 8)


def test_lists_replace(tmp_path: Path) -> None:
    assert len(extended(tmp_path, "{encoder: {masks: [causal]}}").encoder.masks) == 1


def test_another_part_replaces_the_slot_as_a_whole(tmp_path: Path) -> None:
    assert extended(tmp_path, "{norm: {use: rms}}").norm == load_norm("rms")
    assert extended(tmp_path, "{norm: rms}").norm == load_norm("rms")
    assert extended(tmp_path, "{norm: layer}").norm == load_norm("layer")
    attention = extended(tmp_path, "{encoder: {attention: {use: additive, hidden: 3}}}").encoder.attention
    assert isinstance(attention, AdditiveOptions)
    assert isinstance(extended(tmp_path, "{encoder: lstm}").encoder, LstmOptions)


def load_norm(name: str) -> Any:
    return load_recipe(
        {"name": "x", "model": {"family": "encoder", "width": 8, "norm": name}}, REGISTRY
    ).recipe.model.norm


def test_the_same_part_keeps_the_options_below_however_it_is_spelled(tmp_path: Path) -> None:
    for name in ("softmax", "kit-test/softmax"):
        attention = extended(tmp_path, f"{{encoder: {{attention: {{use: {name}, heads: 1}}}}}}").encoder.attention
        assert (attention.heads, attention.kv_heads) == (1, 2)
    assert extended(tmp_path, "{encoder: {use: transformer, depth: 5}}").encoder.attention.heads == 4
    assert extended(tmp_path, "{norm: {use: layer, epsilon: 0.1}}").norm.bias is False


def test_options_over_a_name_alone_belong_to_that_part(tmp_path: Path) -> None:
    base = BASE.replace("{use: layer, epsilon: 0.5, bias: false}", "rms")
    norm = extended(tmp_path, "{norm: {epsilon: 0.25}}", base=base).norm
    assert isinstance(norm, RmsOptions)
    assert norm.epsilon == 0.25


def test_null_takes_away_what_is_below(tmp_path: Path) -> None:
    assert extended(tmp_path, "{norm: null}").norm is None
    assert extended(tmp_path, "{norm: {bias: null}}").norm.bias is True
    assert extended(tmp_path, "{encoder: {attention: {kv_heads: ~}}}").encoder.attention.kv_heads is None


def test_a_mistake_below_is_reported_in_its_own_file(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, "extends: base.yaml\nmodel:\n  length: x\n", base=BASE.replace("width: 8", "width: w"))
    assert [(Path(p.source or "").name, p.line) for p in caught.value.problems] == [("base.yaml", 4), ("over.yaml", 3)]


def test_chains_and_folders(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "middle.yaml").write_text("extends: ../base.yaml\nmodel: {width: 32}\n")
    model = load(tmp_path, "extends: deep/middle.yaml\nmodel: {length: 7}\n").recipe.model
    assert (model.width, model.length) == (32, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: over.yaml\n", "over.yaml:1: extends: found over.yaml, which extends this recipe in turn"),
        ("name: x\nextends: [a]\n", "over.yaml:2: extends: wanted the path of another recipe"),
        ("name: x\nextends: bsae.yaml\n", "over.yaml:2: extends: the recipe "),
        ('extends: "a\\0b"\n', "over.yaml:1: extends: found the control character U+0000"),
    ],
)
def test_extends_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, text)
    assert message in str(caught.value)


def test_circles_and_long_chains_are_refused(tmp_path: Path) -> None:
    for index in range(20):
        (tmp_path / f"{index}.yaml").write_text(f"extends: {index + 1}.yaml\n")
    with pytest.raises(RecipeError, match="more than 8 recipes"):
        load_recipe(tmp_path / "0.yaml", REGISTRY)
    (tmp_path / "3.yaml").write_text("name: x\nextends: 0.yaml\n")
    with pytest.raises(RecipeError, match=r"3.yaml:2: extends: found 0.yaml, which extends this recipe in turn"):
        load_recipe(tmp_path / "0.yaml", REGISTRY)


def test_overrides_set_values_deep_inside(tmp_path: Path) -> None:
    model = extended(
        tmp_path,
        "{}",
        "model.width=512",
        "model.dropout=1e-1",
        "model.encoder.layers[1].attention.heads=16",
        "model.encoder.feedforward={use: relu, ffn_multiplier: 2}",
        "model.encoder.masks=[causal]",
    )
    assert (model.width, model.dropout) == (512, 0.1)
    assert model.encoder.layers[1].attention.heads == 16
    assert model.encoder.feedforward.ffn_multiplier == 2
    assert len(model.encoder.masks) == 1


def test_overrides_replace_or_edit_a_part_as_a_file_would(tmp_path: Path) -> None:
    assert extended(tmp_path, "{}", "model.norm=rms").norm == load_norm("rms")
    assert extended(tmp_path, "{}", "model.norm.use=rms").norm == load_norm("rms")
    edited = extended(tmp_path, "{}", "model.norm.epsilon=1e-6").norm
    assert isinstance(edited, LayerOptions)
    assert (edited.epsilon, edited.bias) == (1e-6, False)
    assert extended(tmp_path, "{}", "model.norm=").norm is None
    assert extended(tmp_path, "{}", "model.norm=rms", "model.norm.epsilon=2").norm.epsilon == 2
    attention = extended(tmp_path, "{}", "model.encoder.attention.use=softmax").encoder.attention
    assert isinstance(attention, SoftmaxOptions)
    assert attention.kv_heads == 2
    assert len(extended(tmp_path, "{}", "model.encoder.masks[0]=null").encoder.masks) == 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.width=x", "model.width: found 'x', wanted a whole number above 0 and at most 1000000"),
        ("modl.width=3", "modl: there is no 'modl' here; the keys are name, description, model"),
        ("model.norm.use=lyer", "model.norm.use: no norm is called 'lyer'"),
        ("model.encoder.attention.use=additive", "model.encoder.attention.hidden: missing, wanted a whole number"),
        ("model.width", "this is not a change to a recipe; wanted a path, = and a value"),
        ("model..width=3", "this is not a change to a recipe"),
        ("[0]=3", "this is not a change to a recipe"),
        ("model.width.x=3", "model.width: found 8, which has nothing called 'x'"),
        ("model.encoder.masks[7]=causal", "model.encoder.masks: found a list of 2, which has no [7]"),
        ("model.encoder.masks.0=causal", "model.encoder.masks: found a list, which has nothing called '0'"),
        ("model.norm[0]=causal", "model.norm: found no list here, so there is no [0]"),
        ("model.norm={use", "this is not YAML: expected ',' or '}'"),
        ("model.width=!!int 3", "found the tag"),
    ],
)
def test_an_override_that_is_wrong_is_named(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        extended(tmp_path, "{}", override)
    [problem] = caught.value.problems
    assert str(problem).startswith(f"override '{override}': {message}")


def test_a_mistake_beside_an_override_stays_where_it_was_written(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, BASE.replace("  width: 8\n", ""), "model.encoder.depth=3")
    assert str(caught.value).startswith(f"{tmp_path / 'over.yaml'}:2: model.width: missing")


def test_overrides_over_a_recipe_written_in_python() -> None:
    from kit.recipe.sections import ModelSection, Recipe

    norm = LayerOptions(epsilon=0.5, bias=False)
    recipe = Recipe(name="x", model=ModelSection(family="encoder", width=8, norm=norm))
    changed: Any = load_recipe(recipe, REGISTRY, ["model.norm.epsilon=0.25", "model.width=4"]).recipe.model
    assert (changed.width, changed.norm.epsilon, changed.norm.bias) == (4, 0.25, False)
    assert recipe.model.width == 8
