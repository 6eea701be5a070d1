"""What stands against training is told when a recipe is read, with its line."""

from __future__ import annotations

import pytest

from kit import KitError, RecipeError
from kit.training.preparation import prepare_training

DECODER = ["model.family=decoder", "model.encoder=null", "model.decoder.cross_attention=null"]
FSDP = ["training.strategy=fsdp", "training.tensor_parallel=2"]
ENCODER = ["model.family=encoder", "model.decoder=null"]


@pytest.mark.parametrize(
    ("overrides", "path", "message"),
    [
        (["training.schedule={use: warmup_cosine, warmup: 50}"], "training.schedule", "takes 50 of 10 steps"),
        (["training.metric=tokn_error"], "training.metric", "did you mean token_error"),
        (["training.metric=bleu"], "training.metric", "wanted loss or token_error"),
        (["training.objective=causal"], "training.objective", "cannot train encoder-decoder on pairs of texts"),
        (ENCODER, "training", "no installed objective trains a model of the family encoder on pairs of texts"),
        ([*DECODER, "tokenizer={source: words, target: words}"], "tokenizer", "reads one sequence"),
        (["model.tie=all", "tokenizer={source: words, target: words}"], "model.tie", "a tokenizer each"),
        (["data=null"], "", "needs this key: data"),
        (["tokenizer=null"], "", "needs this key: tokenizer"),
        (
            ["model.decoder.masks=[causal, document]"],
            "model",
            "the document of every token, which batches of the format seq2seq",
        ),
        ([*ENCODER, "data=listops"], "model", "the objective classes wants logits for each whole sequence"),
        (["training.average={}"], "training.average", "either ema or last is wanted"),
        (["training.average={ema: 0.9, last: 3}"], "training.average", "either ema or last is wanted"),
        (["training.tensor_parallel=2", "training.devices=2"], "training.tensor_parallel", "write strategy: fsdp"),
        ([*FSDP, "training.devices=3"], "training.tensor_parallel", "does not divide its 3 devices"),
        (
            [*FSDP, "training.devices=2", "training.optimizer=muon"],
            "training.tensor_parallel",
            "optimizer muon looks at whole",
        ),
        (["training.optimizer=adamm"], "training.optimizer", "did you mean adam"),
    ],
)
def test_a_mistake_is_named_with_its_place(tiny, overrides, path, message):
    with pytest.raises(RecipeError) as caught:
        tiny(*overrides)
    assert len(caught.value.problems) == 1
    (problem,) = caught.value.problems
    assert problem.dotted == path
    assert message in str(problem)


def test_every_mistake_is_told_at_once(tiny):
    with pytest.raises(RecipeError) as caught:
        tiny("training.metric=x", "training.objective=causal", "training.schedule={use: warmup_linear, warmup: 99}")
    assert len(caught.value.problems) == 3


def test_a_recipe_without_training_is_right_and_cannot_be_trained(tiny, kit):
    recipe = tiny("training=null", "data=null", "tokenizer=null")
    with pytest.raises(KitError, match="no training section"):
        prepare_training(recipe, kit)


def test_a_vocabulary_that_is_not_the_tokenizers(tiny, kit):
    with pytest.raises(KitError, match="says 99 source and 99 target tokens, and the tokenizer has 16 and 16"):
        prepare_training(tiny("model.vocabulary=99"), kit)


def test_classes_that_are_not_the_datas(tiny, kit):
    head = ["model.head={use: classes, classes: 4}", "model.tie=none", "training.metrics=[]"]
    with pytest.raises(KitError, match=r"model\.head\.classes is 4, and the data has 10 classes: 0, 1, 2"):
        prepare_training(tiny(*ENCODER, *head, "data={use: listops, train: 90}"), kit)


@pytest.mark.parametrize(
    ("overrides", "objective"),
    [
        ([], "sequence"),
        (DECODER, "prefix"),
        ([*DECODER, "data={use: plain_text, train: text.txt}", "training.metrics=[]"], "causal"),
        ([*ENCODER, "data={use: plain_text, train: text.txt}", "training.metrics=[]"], "masked"),
    ],
)
def test_the_objective_is_what_suits_the_family_and_the_data(tiny, kit, tmp_path, overrides, objective):
    (tmp_path / "text.txt").write_text("a b c d e f\n" * 30)
    assert prepare_training(tiny(*overrides), kit, tmp_path).objective.name() == objective
