"""The same random Marian in three engines: greedy and beam search write the same tokens on 200 texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from models import marian
from models.searches import make_search

from kit import Hypothesis, Request, TokenBatch

VOCABULARY, LENGTH = 60, 20
SOURCES = marian.sources(200, VOCABULARY, 2, 12)


@pytest.fixture(scope="module")
def theirs() -> Any:
    return marian.hugging_face(32, 2, 4, VOCABULARY, weights=0.3, end=5.0)


@pytest.fixture(scope="module")
def ours(theirs: Any) -> Callable[..., list[Hypothesis]]:
    model = marian.ours(theirs)

    def search(name: str, **options: Any) -> list[Hypothesis]:
        session = model.start(TokenBatch.from_lists(SOURCES, padding=VOCABULARY - 1))
        request = Request(length=LENGTH, special_tokens=marian.special_tokens(theirs))
        return [each[0] for each in make_search(name, options).search(session, request)]

    return search


def hugging_face(theirs: Any, **options: Any) -> list[list[int]]:
    tokens = TokenBatch.from_lists(SOURCES, padding=VOCABULARY - 1)
    assert tokens.padding_mask is not None
    with torch.no_grad():
        ids = theirs.generate(
            input_ids=tokens.ids,
            attention_mask=tokens.padding_mask.long(),
            max_new_tokens=LENGTH,
            do_sample=False,
            **options,
        )
    return marian.written(ids, VOCABULARY - 1)


def test_greedy_writes_what_hugging_face_writes(theirs: Any, ours: Any) -> None:
    found = [each.tokens for each in ours("greedy")]
    assert found == hugging_face(theirs, num_beams=1)
    assert len({len(tokens) for tokens in found}) > 5, "texts of many lengths"


@pytest.mark.parametrize(("stop", "early"), [("full", True), ("likely", False), ("certain", "never")])
def test_beam_search_writes_what_hugging_face_writes(theirs: Any, ours: Any, stop: str, early: Any) -> None:
    wanted = hugging_face(theirs, num_beams=5, early_stopping=early, length_penalty=1.0)
    assert [each.tokens for each in ours("beam", size=5, stop=stop)] == wanted


def test_both_write_what_ctranslate2_writes(theirs: Any, ours: Any, tmp_path: Any) -> None:
    """Scores of beams too: CTranslate2 divides by the length, the end counted."""
    translator = marian.ctranslate2(theirs, tmp_path / "marian")
    texts = [[str(token) for token in source] for source in SOURCES]
    limits = {"max_decoding_length": LENGTH, "min_decoding_length": 0, "return_scores": True}
    greedy = translator.translate_batch(texts, beam_size=1, length_penalty=0.0, **limits)
    beam = translator.translate_batch(texts, beam_size=5, length_penalty=1.0, **limits)
    for found, wanted in ((ours("greedy"), greedy), (ours("beam", size=5), beam)):
        assert [each.tokens for each in found] == [[int(token) for token in each.hypotheses[0]] for each in wanted]
        assert [each.score for each in found] == pytest.approx([each.scores[0] for each in wanted], abs=1e-4)
