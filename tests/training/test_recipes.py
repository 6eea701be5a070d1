"""Every recipe that ships builds and takes a step, on a slice of data like its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.training.train import train

FOLDER = Path(__file__).parents[2] / "recipes"
RECIPES = sorted(path for path in FOLDER.glob("*.yaml"))
PARAMETERS = {
    "shakespeare": 804_096,
    "shakespeare_rms": 804_096,
    "shakespeare_swiglu": 803_584,
    "shakespeare_none": 795_904,
    "shakespeare_rotary": 795_904,
    "shakespeare_grouped": 738_560,
}
SMALLER = {"classify": ["data.train=60", "data.validation=5", "data.test=5"]}


@pytest.fixture
def small_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that recipes name, a few lines each."""
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "nine", "boys", "watch"]
    lines = [" ".join(words[start % 7 : start % 7 + 3 + start % 5]) for start in range(40)]
    files = {
        **{f"multi30k/{name}.{side}": lines for name in ("train", "val", "test_2016_flickr") for side in ("en", "de")},
        **{
            f"scan/tasks_{name}_simple.txt": [f"IN: {line} OUT: {line.upper()}" for line in lines]
            for name in ("train", "test")
        },
        "tinyshakespeare/input.txt": lines * 8,
        "cmudict.dict": [f"word{chr(97 + n % 26)}{chr(97 + n // 26)} W ER1 D AH0" for n in range(120)],
    }
    for name, content in files.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(content) + "\n")
    monkeypatch.setenv("KIT_DATA", str(tmp_path / "data"))
    import kit_data.pronunciations

    monkeypatch.setattr(kit_data.pronunciations, "dictionary_path", lambda: tmp_path / "data" / "cmudict.dict")


@pytest.mark.usefixtures("small_data")
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_takes_a_step(kit, path: Path):
    overrides = ["training.steps=1", "training.schedule=constant", "training.batch_tokens=300"]
    recipe = kit.recipe(path, [*overrides, "training.validation_examples=4", *SMALLER.get(path.stem, [])])
    result = train(recipe, kit, folder=FOLDER)
    assert result.ending == "finished" and result.step == 1
    assert result.evaluation is not None
    assert result.run.weights.is_file()


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_right_as_it_stands(kit, path: Path):
    recipe = kit.recipe(path)
    assert recipe.name == path.stem
    assert recipe.description


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_variants_have_the_parameters_they_should(kit, name: str):
    """With the text's 65 characters and no special tokens, as the figures were counted."""
    recipe = kit.recipe(FOLDER / f"{name}.yaml", ["model.vocabulary=65"])
    assert kit.explain(recipe).cost.parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", [name for name in PARAMETERS if name != "shakespeare"])
def test_a_variant_differs_by_one_line(name: str):
    lines = (FOLDER / f"{name}.yaml").read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == ["extends", "name", "model"]
