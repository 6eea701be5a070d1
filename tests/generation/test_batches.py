"""Every search gives a text the same hypotheses alone and among others of other lengths."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.searches import SEARCHES, begin, make_search, sharpen
from models.tiny_models import build

from kit import Request, TokenBatch
from kit_head.language import LanguageOptions

LENGTHS = (5, 1, 9, 3, 7)


@pytest.fixture(scope="module", params=["encoder-decoder", "decoder"])
def models(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A model and one that guesses what it writes, rightly at times."""
    end = {"encoder-decoder": 4.0, "decoder": 1.0}[request.param]
    head = LanguageOptions(bias=True)
    model, other = (sharpen(build(request.param, vocabulary=12, head=head).float(), end) for _ in range(2))
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model, other


def rows() -> list[list[int]]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(6, 12, (length,), generator=generator).tolist() for length in LENGTHS]


def searched(models: tuple[Any, Any], name: str, texts: list[list[int]], streams: list[int]) -> Any:
    search = make_search(*SEARCHES[name])
    tokens = TokenBatch.from_lists(texts)
    reads = hasattr(models[0], "encode")
    request = Request(
        length=[3 if name == "exhaustive" else 6 + stream for stream in streams],
        prompt=None if reads else tokens,
        draft=begin(models[1], tokens),
        streams=streams,
    )
    return search.search(begin(models[0], tokens), request)


@pytest.mark.parametrize("name", SEARCHES)
def test_batched_equals_one_by_one(models: tuple[Any, Any], name: str) -> None:
    together = searched(models, name, rows(), list(range(len(LENGTHS))))
    assert len(together) == len(LENGTHS)
    finished = cut = 0
    for number, (text, batched) in enumerate(zip(rows(), together, strict=True)):
        (alone,) = searched(models, name, [text], [number])
        assert [each.tokens for each in batched] == [each.tokens for each in alone]
        assert [each.finished for each in batched] == [each.finished for each in alone]
        assert [each.score for each in batched] == pytest.approx([each.score for each in alone], abs=1e-5)
        finished += sum(each.finished for each in batched)
        cut += sum(not each.finished for each in batched)
    assert finished + cut >= len(LENGTHS)


def test_texts_end_at_different_steps(models: tuple[Any, Any]) -> None:
    """So that the test above sees rows leave the batch."""
    found = searched(models, "beam", rows(), list(range(len(LENGTHS))))
    assert len({len(each.tokens) for text in found for each in text if each.finished}) > 1


def test_speculative_gives_the_tokens_of_greedy(models: tuple[Any, Any]) -> None:
    streams = list(range(len(LENGTHS)))
    wanted = searched(models, "greedy", rows(), streams)
    found = searched(models, "speculative", rows(), streams)
    assert [[each.tokens for each in text] for text in found] == [[each.tokens for each in text] for text in wanted]
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours[0].score == pytest.approx(theirs[0].score, abs=1e-5)


def test_a_beam_of_one_is_greedy(models: tuple[Any, Any]) -> None:
    tokens = TokenBatch.from_lists(rows())
    prompt = None if hasattr(models[0], "encode") else tokens
    request = Request(length=12, prompt=prompt)
    beam = make_search("beam", {"size": 1, "penalty": "none"}).search(begin(models[0], tokens), request)
    greedy = make_search("greedy", {}).search(begin(models[0], tokens), request)
    for ours, theirs in zip(beam, greedy, strict=True):
        assert ours[0].tokens == theirs[0].tokens
        assert ours[0].score == pytest.approx(theirs[0].score, abs=1e-5)


def test_a_perfect_draft_saves_steps(models: tuple[Any, Any]) -> None:
    tokens = TokenBatch.from_lists(rows())
    prompt = None if hasattr(models[0], "encode") else tokens
    counted = Counted(begin(models[0], tokens))
    request = Request(length=20, prompt=prompt, draft=begin(models[0], tokens))
    found = make_search("speculative", {"draft": "itself", "ahead": 4}).search(counted, request)
    longest = max(len(each.tokens) + each.finished for text in found for each in text)
    assert longest > 5
    assert counted.steps <= 1 + -(-longest // 5), "five tokens a step, after the first"


class Counted:
    """A decoder that counts its steps."""

    def __init__(self, decoder: Any) -> None:
        self.decoder, self.steps = decoder, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.decoder, name)

    def step(self, tokens: Any, last: bool = False) -> Any:
        self.steps += 1
        return self.decoder.step(tokens, last)
