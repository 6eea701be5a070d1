"""A run answers texts: each as if it were alone, in their order, and what is odd about one is said."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path

import pytest
import torch
from models.tiny_models import KIT
from runs import tiny_runs

import kit
from kit import KitError, Predictor, Special, TokenBatch
from kit_search.beam import BeamOptions

Of = Callable[[str], Predictor]
TEXTS = {
    "pairs": ["1 2", "3", "0 1 2 3", "5 5 1"],
    "prefixed": ["1 2", "3", "0 1 2 3", "5 5 1"],
    "texts": ["the c", "a dog and", "", "t"],
    "masked": ["the ___ sat", "___", "the cat sat on the ___.", "a ___ and a ___"],
    "classes": ["rose", "sky sea sky", "leaf", "grass leaf"],
}
TASKS = {"pairs": "seq2seq", "prefixed": "seq2seq", "texts": "generate", "masked": "fill_mask", "classes": "classify"}


@pytest.mark.parametrize("name", sorted(TASKS))
def test_each_text_is_answered_as_if_alone_and_in_order(predictor: Of, name: str) -> None:
    model, texts = predictor(name), TEXTS[name] * 20
    assert model.task == TASKS[name]
    found = model.predict(texts)
    assert [each.input for each in found] == texts
    for text, together in zip(TEXTS[name], found, strict=False):
        (alone,) = model.predict([text])
        assert (alone.text, alone.outputs[0].tokens) == (together.text, together.outputs[0].tokens)
        assert alone.outputs[0].score == pytest.approx(together.outputs[0].score, abs=1e-5)


def test_a_model_that_learnt_to_copy_copies(predictor: Of) -> None:
    found = predictor("pairs").predict(["1 2", "4 0 3"])
    assert [each.text for each in found] == ["1 2", "4 0 3"]
    assert all(each.outputs[0].finished and each.problem == "" and each.outputs[0].score < 0 for each in found)
    assert found[0].outputs[0].tokens == ("1", "2")


def test_eight_bits_answer_alike_in_less_memory(predictor: Of) -> None:
    from kit.generation.quantization import size_of

    whole = predictor("pairs")
    small = kit.load(whole.run.run, KIT, int8=True)
    assert [each.text for each in small.predict(["1 2", "4 0 3"])] == ["1 2", "4 0 3"]
    assert size_of(small.run.model) < 0.6 * size_of(whole.run.model)


def test_a_score_is_the_log_probability_of_what_was_written(predictor: Of) -> None:
    run = predictor("pairs").run
    (found,) = predictor("pairs").predict(["1 2"])
    tokenizer = run.tokenizers.target
    source = torch.tensor([[*tokenizer.encode("1 2"), Special.END]])
    written = [*tokenizer.encode(found.text), int(Special.END)]
    scores = run.model(TokenBatch.of(source), torch.tensor([[int(Special.START), *written[:-1]]])).log_softmax(-1)
    wanted = sum(float(scores[0, place, token]) for place, token in enumerate(written))
    assert found.outputs[0].score == pytest.approx(wanted, abs=1e-4)


def test_several_answers_come_best_first(predictor: Of) -> None:
    (found,) = predictor("pairs").predict(["1 2"], search="beam size=4", nbest=3)
    scores = [output.score for output in found.outputs]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    assert len({output.text for output in found.outputs}) == 3
    (drawn,) = predictor("pairs").predict(["1 2"], search="sample temperature=2.0", nbest=5)
    assert len(drawn.outputs) == 5
    with pytest.raises(KitError, match="greedy gives one answer, and 2 are wanted; take beam or exhaustive or sample"):
        predictor("pairs").predict(["1"], nbest=2)
    with pytest.raises(KitError, match="cannot give 9 answers: a beam of 4 cannot give 9 hypotheses"):
        predictor("pairs").predict(["1"], search="beam", nbest=9)
    with pytest.raises(KitError, match="at least 1"):
        predictor("pairs").predict(["1"], nbest=0)


def test_a_search_is_named_in_words_or_options(predictor: Of) -> None:
    model = predictor("pairs")
    words = model.predict(["1 2", "3"], search="beam size=3 penalty=none")
    assert model.predict(["1 2", "3"], search=BeamOptions(size=3, penalty="none")) == words
    assert model.predict(["1 2", "3"], search="{use: beam, size: 3, penalty: none}") == words
    assert model.predict(["1 2"], search="length=1")[0].outputs[0].tokens == ("1",)
    for wrong, reason in (
        ("bem", "did you mean beam"),
        ("beam sise=3", "did you mean size"),
        ("beam 3", "wanted option=value"),
        ("beam 'size=3", "cannot be read"),
        ("size=3", "the search 'greedy' has no option 'size'"),
    ):
        with pytest.raises(KitError, match=reason):
            model.predict(["1"], search=wrong)


def test_what_is_required_is_written(predictor: Of) -> None:
    model = predictor("pairs")
    search = "{use: beam, length: 6, constraints: [{use: required, phrases: ['5', '4 4']}]}"
    for text in TEXTS["pairs"]:
        (plain,), (found,) = model.predict([text]), model.predict([text], search=search)
        assert "5" in found.text.split() and "4 4" in found.text
        assert "4 4" not in plain.text
    with pytest.raises(KitError, match=r"constraints\[0\] \(required\): it names the token 99"):
        model.predict(["1"], search="{use: beam, constraints: [{use: required, phrases: [[99]]}]}")


def test_sampling_depends_on_the_place_of_a_text_alone(predictor: Of) -> None:
    model, lines = predictor("pairs"), ["1 2 3"] * 40
    drawn = model.predict(lines, search="sample temperature=3.0 seed=4")
    assert len({each.text for each in drawn}) > 5
    again = list(model.answers([lines[:7], lines[7:]], search="sample temperature=3.0 seed=4"))
    assert [each.text for each in again] == [each.text for each in drawn]


def test_a_draft_guesses_what_greedy_would_write(predictor: Of, folder: Path) -> None:
    model = predictor("pairs")
    wanted = [each.text for each in model.predict(TEXTS["pairs"])]
    draft = model.run.run.path
    found = model.predict(TEXTS["pairs"], search=f"speculative draft={draft}")
    assert [each.text for each in found] == wanted
    other = predictor("prefixed").run.run.path
    with pytest.raises(
        KitError, match=r"cannot guess for .*: (they have different tokenizers|the one is of the family)"
    ):
        model.predict(["1"], search=f"speculative draft={other}")


@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
def test_a_draft_for_shorter_texts_is_refused_before_it_reads_one(predictor: Of, tmp_path: Path, position: str) -> None:
    model = predictor("pairs")
    changes = ["training.steps=1", "model.length=8", f"model.position={position}"]
    short = tiny_runs.trained(tiny_runs.PAIRS, tmp_path, *changes)
    wanted = r"(?s)cannot guess for .*it is made for 8 tokens, the other for 16.*train a draft with model\.length=16"
    with pytest.raises(KitError, match=wanted):
        model.predict(["1"], search=f"speculative draft={short.path}")


def test_weights_of_a_draft_are_prepacked_too(predictor: Of, monkeypatch: pytest.MonkeyPatch) -> None:
    prepacked = []
    monkeypatch.setattr("kit.prediction.predictor.prepack_weights", prepacked.append)
    model = predictor("pairs")
    model.predict(["1"], search=f"speculative draft={model.run.run.path} ahead=3")
    assert len(prepacked) == 1 and prepacked[0] is not model.run.model


def test_a_stream_without_end_is_answered_in_bounded_memory(predictor: Of) -> None:
    taken = []

    def lines() -> object:
        for number in count():
            taken.append(number)
            yield str(number % 6)

    found = list(islice(predictor("pairs").stream(lines()), 3))  # type: ignore[arg-type]
    assert [each.input for each in found] == ["0", "1", "2"]
    assert len(taken) <= 512


@pytest.mark.parametrize("name", sorted(TASKS))
def test_nothing_gives_nothing_and_empty_texts_give_something(predictor: Of, name: str) -> None:
    assert predictor(name).predict([]) == []
    (empty,) = predictor(name).predict([""])
    assert len(empty.outputs) == 1 and math.isfinite(empty.outputs[0].score)
    assert ("the input is empty" in empty.problem) == (name != "texts")
    with pytest.raises(KitError, match=r"write predict\(\[text\]\)"):
        predictor(name).predict("one text")


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [("pairs", "1 " * 40, "first 15"), ("prefixed", "1 " * 40, "first 16"), ("classes", "rose " * 40, "first 10")],
)
def test_what_is_too_long_is_cut_and_told(predictor: Of, name: str, text: str, kept: str) -> None:
    model = predictor(name)
    (found,) = model.predict([text])
    assert found.problem == f"the input has 40 tokens, and only the {kept} of them were read"
    cut = " ".join(text.split()[: model.longest])
    assert found.outputs == model.predict([cut])[0].outputs


def test_a_text_that_is_continued_keeps_its_end(predictor: Of) -> None:
    model = predictor("texts")
    long = tiny_runs.TEXT[:60]
    (found,) = model.predict([long])
    assert found.problem == "the input has 60 tokens, and only the last 11 of them were read"
    read = model.encoder.encode(long)
    assert len(read.ids) == 12, "there is no start token before the middle of a text"
    assert model.run.tokenizers.source.decode(read.ids) == long[-12:]
    assert len(found.outputs[0].tokens) == 4, "a quarter of the model's length is left to write in"


def test_what_is_unknown_is_named(predictor: Of) -> None:
    (word,) = predictor("classes").predict(["rose tulip rose"])
    assert word.problem == "unknown: 'tulip'"
    (letters,) = predictor("texts").predict(["the çat ÷"])
    assert letters.problem == "unknown: 'ç', '÷'"
    (many,) = predictor("classes").predict(["a b c d e f g"])
    assert many.problem.endswith("'e' and 2 more")


def test_classes_have_probabilities(predictor: Of) -> None:
    (found,) = predictor("classes").predict(["grass leaf"], nbest=10)
    assert found.text == "green"
    assert {output.text for output in found.outputs} == {"red", "green", "blue"}
    assert sum(output.score for output in found.outputs) == pytest.approx(1, abs=1e-5)
    with pytest.raises(KitError, match="generates nothing"):
        predictor("classes").predict(["rose"], search="beam")


def test_a_run_can_be_loaded_by_its_name(predictor: Of, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor("pairs")
    monkeypatch.chdir(folder)
    assert kit.load("pairs/1", KIT, device="cpu").predict(["2"]) == predictor("pairs").predict(["2"])
