"""Holes are filled where they stand, and nothing else of a text changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kit import Predictor, Special, TokenBatch

Of = Callable[[str], Predictor]


def test_a_hole_is_written_in_two_ways(predictor: Of) -> None:
    model = predictor("masked")
    lines, tags = model.predict(["the ___ sat on the _____.", "the <mask> sat on the <mask>."], nbest=3)
    assert lines.outputs == tags.outputs
    assert all("_" not in output.text and len(output.tokens) == 2 for output in lines.outputs)
    assert all(output.text.startswith("the") and output.text.endswith(".") for output in lines.outputs)
    assert lines.problem == ""


def test_the_answer_is_the_likeliest_token_at_the_hole(predictor: Of) -> None:
    model = predictor("masked")
    tokenizer, run = model.run.tokenizers.source, model.run
    (found,) = model.predict(["the ___ sat"], nbest=2)
    ids = [int(Special.START), *tokenizer.encode("the"), int(Special.MASK), *tokenizer.encode(" sat"), int(Special.END)]
    log_p = run.model(TokenBatch.of(torch.tensor([ids]))).log_softmax(-1)[0, ids.index(int(Special.MASK))]
    log_p[: len(Special)] = float("-inf")
    best = log_p.topk(2)
    assert [output.tokens[0] for output in found.outputs] == [
        tokenizer.token(number) for number in best.indices.tolist()
    ]
    assert [output.score for output in found.outputs] == pytest.approx(best.values.tolist(), abs=1e-5)
    assert found.text == "the" + tokenizer.decode([int(best.indices[0])]) + " sat"


def test_several_holes_are_ranked_together(predictor: Of) -> None:
    (one,) = predictor("masked").predict(["a ___ and a ___"], nbest=4)
    scores = [output.score for output in one.outputs]
    assert scores == sorted(scores, reverse=True) and len({output.tokens for output in one.outputs}) == 4


def test_a_text_without_a_hole_stays_and_this_is_said(predictor: Of) -> None:
    (found,) = predictor("masked").predict(["the cat sat"])
    assert (found.text, found.outputs[0].score) == ("the cat sat", 0.0)
    assert "nothing to fill in; write ___ or <mask>" in found.problem


def test_a_hole_beyond_what_is_read_stays(predictor: Of) -> None:
    text = "the ___ sat. " + "the cat sat on the mat. " * 5 + "the ___"
    (found,) = predictor("masked").predict([text])
    assert found.text.endswith("the ___") and "___" not in found.text[:12]
    assert "only the first 14 of them were read" in found.problem
