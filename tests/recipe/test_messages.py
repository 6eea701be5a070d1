"""The exact words a person reads for the common mistakes in a recipe."""

from pathlib import Path
from typing import Any

import pytest

from kit.errors import Problem, RecipeError
from kit.recipe.loading import load_recipe

from .parts import SoftmaxOptions, part, plugin, registry

REGISTRY = registry()
HEAD = "name: x\nmodel:\n  family: encoder\n"


def mistakes(text: str | dict[str, Any]) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        load_recipe(text, REGISTRY)
    return [str(problem) for problem in caught.value.problems]


MESSAGES = {
    '  width: "512"\n': "recipe:4: model.width: found '512', wanted a whole number above 0 and at most 1000000\n"
    "    write 512, without quotes",
    "  width: 1_000\n": "recipe:4: model.width: found '1_000', wanted a whole number above 0 and at most 1000000\n"
    "    write 1000, without underscores",
    "  width: 1e3\n": "recipe:4: model.width: found 1000.0, wanted a whole number above 0 and at most 1000000\n"
    "    write 1000",
    "  width: true\n": "recipe:4: model.width: found true, wanted a whole number above 0 and at most 1000000",
    "  width: [1, 2]\n": "recipe:4: model.width: found a list of 2, wanted a whole number above 0 and at most 1000000",
    "  depth: 3\n": "recipe:2: model.width: missing, wanted a whole number above 0 and at most 1000000\n"
    "    The model width (hidden size, d_model).",
    "  width: 8\n  dropuot: 0.1\n": "recipe:5: model.dropuot: there is no 'dropuot' here; the keys are family, width,"
    " vocabulary, length, dropout, embedding, tie, position, norm, embedding_norm, encoder, decoder, head,"
    " regularizers, kept_heads\n"
    "    did you mean dropout?",
    "  width: 8\n  dropout: 1\n": "recipe:5: model.dropout: found 1, wanted a number of at least 0 and below 1",
    "  width: 8\n  tie: outputs\n": "recipe:5: model.tie: found 'outputs', wanted one of none, output, inputs, all\n"
    "    did you mean output?",
    "  width: 8\n  embedding_norm: yes\n": "recipe:5: model.embedding_norm: found 'yes', wanted true or false\n"
    "    write true",
    "  width: 8\n  vocabulary: many\n": "recipe:5: model.vocabulary: found 'many', wanted a whole number above 0,"
    " or a mapping with the keys source, target",
    "  width: 8\n  vocabulary:\n    source: 3\n": "recipe:5: model.vocabulary.target: missing,"
    " wanted a whole number above 0\n    The vocabulary size of the decoder.",
    "  width: 8\n  norm: lyer\n": "recipe:5: model.norm: no norm is called 'lyer'\n    did you mean layer?\n"
    "    installed: layer, rms",
    "  width: 8\n  norm:\n    use: lyer\n": "recipe:6: model.norm.use: no norm is called 'lyer'\n"
    "    did you mean layer?\n    installed: layer, rms",
    "  width: 8\n  norm: 3\n": "recipe:5: model.norm: found 3, wanted the name of a norm (one of layer, rms)"
    " or a mapping with its options",
    "  width: 8\n  norm: {use: layer, eps: 1}\n": "recipe:5: model.norm.eps: the norm 'layer' has no option 'eps';"
    " it has epsilon, bias\n    did you mean epsilon?",
    "  width: 8\n  embedding: {size: 1}\n": "recipe:5: model.embedding.size: the embedding 'scaled' has no option"
    " 'size'; it has none",
    "  width: 8\n  head: tokens\n": "recipe:5: model.head: no head is called 'tokens'\n    installed: none",
    "  width: 8\n  encoder:\n    masks: causal\n": "recipe:6: model.encoder.masks: found 'causal', wanted a list, each"
    " the name of a mask (one of any, causal) or a mapping with its options\n    write [causal]",
    "  width: 8\n  encoder:\n    masks:\n    - {}\n": "recipe:7: model.encoder.masks[0].use: missing, wanted the name"
    " of a mask (one of any, causal)",
    "  width: 8\n  encoder:\n    masks: [{use: 3}]\n": "recipe:6: model.encoder.masks[0].use: found 3, wanted the name"
    " of a mask (one of any, causal) or a mapping with its options",
    "  width: 8\n  encoder:\n    masks: [{use: any, masks: []}]\n": "recipe:6: model.encoder.masks[0].masks: found an"
    " empty list, wanted a list of at least 1 item, each the name of a mask (one of any, causal) or a mapping with"
    " its options",
    "  width: 8\n  encoder:\n    attention:\n      use: additive\n": "recipe:6: model.encoder.attention.hidden:"
    " missing, wanted a whole number above 0\n    The width of that network.",
    "  width: 8\n  encoder:\n    attention:\n      kv_heads: 13\n": "recipe:7: model.encoder.attention.kv_heads:"
    " found 13: 13 kv_heads bring bad luck",
    "  width: 8\n  encoder:\n    attention:\n      scale: rot\n": "recipe:7: model.encoder.attention.scale:"
    " found 'rot', wanted one of root, none\n    did you mean root?",
    "  width: 8\n  encoder: {feedforward: {hidden: no}}\n": "recipe:5: model.encoder.feedforward.hidden: found 'no',"
    " wanted a whole number above 0, or auto",
    "  width: 8\n  encoder: {named: {a: 3}}\n": "recipe:5: model.encoder.named.a: found 3, wanted the name of a norm"
    " (one of layer, rms) or a mapping with its options",
}


@pytest.mark.parametrize("text", MESSAGES)
def test_message(text: str) -> None:
    found = mistakes(HEAD + text)
    assert MESSAGES[text] in found
    assert len(found) == (2 if "depth" in text else 1)


def test_a_wrong_name_of_a_recipe() -> None:
    assert mistakes("name: two words\nmodel: {family: encoder, width: 8}\n") == [
        r"recipe:1: name: found 'two words', wanted text of 1 to 100 characters that matches ^[\w][\w.-]*$"
    ]


def test_all_mistakes_at_once_in_the_order_of_the_file() -> None:
    found = mistakes(HEAD + "  tie: x\n  norm: {epsilon: 0,\n    bias: no}\nnmae: y\n")
    assert [line.split(":")[1] for line in found] == ["2", "4", "5", "6", "7"]


def test_what_is_missing_stands_below_the_misspelt_key_that_it_may_be_missing_for() -> None:
    found = mistakes(HEAD + "  tie: x\n  wdth: 3\n  norm: 3\nnmae: y\n")
    paths = [message.split(": ")[1] for message in found]
    assert paths == ["model.tie", "model.wdth", "model.width", "model.norm", "nmae"]
    with pytest.raises(RecipeError) as caught:
        load_recipe(HEAD + "  width: 8\n", REGISTRY, ["training.stpes=5"])
    assert [problem.dotted for problem in caught.value.problems] == [
        "training.stpes", "training.steps", "training.batch_tokens"
    ]  # fmt: skip


def test_hundreds_of_mistakes_are_cut() -> None:
    found = mistakes(HEAD + "  width: 8\n  encoder: {masks: [" + "1, " * 300 + "]}\n")
    assert len(found) == 51
    assert found[-1] == "recipe:5: and 250 more mistakes from here on"


def test_a_check_of_a_part_that_breaks_is_blamed_on_it() -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(HEAD + "  width: 8\n  encoder: {attention: {kv_heads: 666}}\n", REGISTRY)
    assert caught.value.exit_code == 3
    expected = "checking the options of attention 'kit-test/softmax' failed with KeyError: 'kv_heads'"
    assert str(caught.value) == f"recipe:5: model.encoder.attention: {expected}"


def test_only_missing_parts_end_with_their_own_exit_code() -> None:
    def code(text: str) -> int:
        with pytest.raises(RecipeError) as caught:
            load_recipe(HEAD + text, REGISTRY)
        return caught.value.exit_code

    assert code("  width: 8\n  norm: lyer\n") == 4
    assert code("  width: x\n  norm: lyer\n") == 2


def test_a_name_that_two_distributions_bring() -> None:
    both = registry(plugin("kit-other", part("attention", type("OtherOptions", (SoftmaxOptions,), {}))))
    with pytest.raises(RecipeError) as caught:
        load_recipe(HEAD + "  width: 8\n  encoder: {attention: softmax}\n", both)
    assert "type kit-test/softmax or kit-other/softmax" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "first.yaml").write_text(HEAD)
    with pytest.raises(RecipeError) as caught:
        load_recipe(tmp_path / "frist.yaml", REGISTRY)
    expected = f"the recipe {tmp_path / 'frist.yaml'} is not there\n    did you mean {tmp_path / 'first.yaml'}?"
    assert str(caught.value) == f"{tmp_path / 'frist.yaml'}: {expected}"


def test_a_folder_is_no_recipe(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="is a folder"):
        load_recipe(tmp_path, REGISTRY)


def test_later_checks_find_the_line_of_a_path(tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_text(HEAD + "  width: 8\n  encoder:\n    masks: [causal]\n")
    loaded = load_recipe(file, REGISTRY)
    assert loaded.locate(("model", "encoder", "masks", 0)) == (str(file), 6)
    assert loaded.locate(("model", "encoder", "attention", "heads")) == (str(file), 5)
    problem = loaded.locate_problem(Problem("no", ("model", "norm", "epsilon"), hint="yes"))
    assert str(problem) == f"{file}:2: model.norm.epsilon: no\n    yes"
    elsewhere = Problem("no", ("model",), source="other", line=7)
    assert loaded.locate_problem(elsewhere) is elsewhere


def test_data_without_lines() -> None:
    assert mistakes({"name": "x", "model": {"family": "encoder", "width": -1}}) == [
        "recipe: model.width: found -1, wanted a whole number above 0 and at most 1000000"
    ]
    assert mistakes({"name": "x", 3: 4}) == ["recipe: found 3 as a key, wanted a name"]
    deep: dict[str, Any] = {}
    deep["name"] = deep
    assert mistakes(deep) == ["recipe: found lists and mappings nested deeper than 64 levels"]
