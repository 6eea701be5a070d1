"""Several likeliest tokens in a row, taken without Python between them, are those that steps one by one give."""

from __future__ import annotations

import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from models.compiled_decoding import needs_compiler
from models.searches import make_search, sharpen
from models.tiny_models import KIT, build, random_tokens

from kit import (
    GenerationState,
    Hypothesis,
    KitError,
    Model,
    NotCompiledWarning,
    Request,
    SpecialTokenIds,
    TokenBatch,
    compile_steps,
    prepack_weights,
)
from kit.model.decoding_session import MAX_GREEDY_STEPS
from kit_head.language import LanguageOptions

pytestmark = needs_compiler


def twins(family: str = "decoder", layer: dict[str, Any] | None = None) -> tuple[Model, Model]:
    """The same model twice; the second one's steps are compiled."""
    plain, compiled = (
        sharpen(build(family, {"depth": 1, **(layer or {})}, head=LanguageOptions(bias=True), length=256)).float()
        for _ in range(2)
    )
    prepack_weights(compiled)
    compile_steps(compiled)
    return plain, compiled


def multiple_steps(model: Model, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens each call of decode_greedy of this model gives, from now on."""
    lengths: list[int] = []
    inner = model.decode_greedy

    def counted(*given: Any) -> Any:
        found = inner(*given)
        if found is not None:
            lengths.append(len(found.token_T))
        return found

    monkeypatch.setitem(model.__dict__, "decode_greedy", counted)
    return lengths


def greedy(model: Model, request: Request) -> list[Hypothesis]:
    session = model.start() if request.prompt is not None else model.start(random_tokens(7, seed=6))  # type: ignore[operator]
    return [each[0] for each in make_search("greedy", {}).search(session, request)]


def same(one: list[Hypothesis], other: list[Hypothesis]) -> bool:
    return all(
        a.tokens == b.tokens and a.finished == b.finished and a.score == pytest.approx(b.score, abs=1e-4)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("family", ["decoder", "encoder-decoder"])
def test_a_long_text_is_the_same_and_written_in_multiple_steps(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, compiled = twins(family)
    taken = multiple_steps(compiled, monkeypatch)
    prompt = TokenBatch.of(torch.tensor([[9, 4]])) if family == "decoder" else None
    endless = Request(length=100, prompt=prompt, special_tokens=SpecialTokenIds(end=-1))
    long = greedy(plain, endless)
    assert len(long[0].tokens) == 100 and len(set(long[0].tokens)) > 2
    assert same(long, greedy(compiled, endless))
    assert max(taken) == MAX_GREEDY_STEPS and sum(taken) > 80
    # Every token once stands for the end: at the first of several greedy steps, within it, at its last.
    before = len(taken)
    for end in sorted(set(long[0].tokens)):
        request = Request(length=100, prompt=prompt, special_tokens=SpecialTokenIds(end=end))
        assert same(greedy(plain, request), greedy(compiled, request))
        never = Request(length=40, prompt=prompt, special_tokens=SpecialTokenIds(end=-1, suppressed=(end, 49)))
        found = greedy(compiled, never)
        assert same(greedy(plain, never), found) and end not in found[0].tokens
    assert len(taken) > before


def test_what_comes_after_a_stretch_is_read_after_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, compiled = twins()
    none = torch.empty(0, dtype=torch.long)
    with torch.no_grad():
        session, slow = compiled.start(), plain.start()  # type: ignore[operator]
        for token in (5, 6, 7):
            session.step(torch.tensor([[token]]))
            slow.step(torch.tensor([[token]]))
        found = session.decode_greedy(torch.tensor([[8]]), none, -1, 6)
        assert found is not None and len(found.token_T) == 6
        scores = slow.step(torch.tensor([[8]]))
        for log, token in zip(found.log_T.tolist(), found.token_T.tolist(), strict=True):
            best = scores[0, -1].log_softmax(0).max(0)
            assert (int(best.indices), float(best.values)) == (token, pytest.approx(log, abs=1e-4))
            vectors, scores = slow.vectors, slow.step(torch.tensor([[token]]))
        assert (found.vectors - vectors).abs().max() < 1e-4
        after = session.step(found.token_T[-1:, None])
        assert (after - scores).abs().max() < 1e-4
        assert (after - session.step(found.token_T[-1:, None])).abs().max() > 1e-3, "what was read counts"


def test_a_state_that_every_step_replaces_goes_from_step_to_step(monkeypatch: pytest.MonkeyPatch) -> None:
    options = KIT.registry.find("attention", "linear").component.options_type(heads=4)
    plain, compiled = twins(layer={"attention": options})
    taken = multiple_steps(compiled, monkeypatch)
    request = Request(length=60, prompt=TokenBatch.of(torch.tensor([[9]])), special_tokens=SpecialTokenIds(end=-1))
    assert same(greedy(plain, request), greedy(compiled, request))
    assert sum(taken) > 40


def test_a_recurrent_decoder_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    options = KIT.registry.find("stack", "lstm").component.options_type(depth=1)
    plain, compiled = (sharpen(build("decoder", decoder=options)).float() for _ in range(2))
    compile_steps(compiled)
    taken = multiple_steps(compiled, monkeypatch)
    request = Request(length=40, prompt=TokenBatch.of(torch.tensor([[9]])), special_tokens=SpecialTokenIds(end=-1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotCompiledWarning)
        assert same(greedy(plain, request), greedy(compiled, request))
    assert sum(taken) > 20


def test_a_padded_prompt_is_gone_on_from_the_same() -> None:
    plain, compiled = twins()
    padded = TokenBatch(torch.tensor([[0, 0, 9, 4]]), torch.tensor([[False, False, True, True]]))
    bare = TokenBatch.of(torch.tensor([[9, 4]]))
    requests = [Request(length=40, prompt=prompt, special_tokens=SpecialTokenIds(end=-1)) for prompt in (padded, bare)]
    found = [greedy(model, request) for model in (plain, compiled) for request in requests]
    assert all(same(found[0], each) for each in found[1:])


def test_other_number_formats_are_written_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, compiled = (sharpen(build("decoder", {"depth": 1})) for _ in range(2))
    compile_steps(compiled)
    taken = multiple_steps(compiled, monkeypatch)
    request = Request(length=20, prompt=TokenBatch.of(torch.tensor([[9]])), special_tokens=SpecialTokenIds(end=-1))
    assert same(greedy(plain, request), greedy(compiled, request)) and taken == []


def test_what_is_not_a_number_shows_in_the_score(monkeypatch: pytest.MonkeyPatch) -> None:
    _, compiled = twins()
    taken = multiple_steps(compiled, monkeypatch)
    with torch.no_grad():
        compiled.head.bias[20] = float("nan")
    found = greedy(
        compiled,
        Request(
            length=20, prompt=TokenBatch.of(torch.tensor([[9]])), special_tokens=SpecialTokenIds(suppressed=(0, 1, 2))
        ),
    )
    assert math.isnan(found[0].score) and taken and not {0, 1, 2} & set(found[0].tokens)


def test_threads_write_the_same_at_once() -> None:
    plain, compiled = twins()
    requests = [
        Request(length=40, prompt=TokenBatch.of(torch.tensor([[token, 4]])), special_tokens=SpecialTokenIds(end=-1))
        for token in range(5, 13)
    ]
    wanted = [greedy(plain, request) for request in requests]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda request: greedy(compiled, request), requests))
    assert all(map(same, wanted, found)) and len({tuple(each[0].tokens) for each in wanted}) > 1


def test_whoever_writes_another_token_than_the_likeliest_is_stopped() -> None:
    _, compiled = twins()
    with torch.no_grad():
        request = Request(length=20, prompt=TokenBatch.of(torch.tensor([[9]])), special_tokens=SpecialTokenIds(end=-1))
        state = GenerationState(compiled.start(), request)  # type: ignore[operator]
        _, token = state.prefill().best()
        for _ in range(3):
            _, token = state.step_greedy(token)
        for wrong in (lambda: state.step(token), lambda: state.reorder(torch.tensor([0]))):
            with pytest.raises(KitError, match="only what it gives can be written"):
                wrong()
        with pytest.raises(KitError, match="was written; use step"):
            state.step_greedy((token + 1) % 50)
        state.step_greedy(token)


def test_where_nothing_can_follow_the_text_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, compiled = twins()
    taken = multiple_steps(compiled, monkeypatch)
    request = Request(
        length=30,
        prompt=TokenBatch.of(torch.tensor([[9]])),
        special_tokens=SpecialTokenIds(end=-1, suppressed=tuple(range(1, 50))),
    )
    for model in (plain, compiled):
        assert greedy(model, request)[0].tokens == [0] * 30
    assert taken, "one token is enough for several greedy steps"
    stuck = Request(
        length=30,
        prompt=TokenBatch.of(torch.tensor([[9]])),
        special_tokens=SpecialTokenIds(end=-1, suppressed=tuple(range(50))),
    )
    assert greedy(plain, stuck) == greedy(compiled, stuck) and greedy(compiled, stuck)[0].tokens == []


def test_several_texts_and_constraints_are_written_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, compiled = twins()
    taken = multiple_steps(compiled, monkeypatch)
    two = Request(length=20, prompt=random_tokens(3, 3), special_tokens=SpecialTokenIds(end=-1))
    assert same(greedy(plain, two), greedy(compiled, two))
    component: Any = KIT.registry.find("constraint", "ngrams").component
    one = Request(
        length=20,
        prompt=random_tokens(3),
        special_tokens=SpecialTokenIds(end=-1),
        constraints=[component(component.options_type(size=2))],
    )
    assert same(greedy(plain, one), greedy(compiled, one))
    assert taken == []
