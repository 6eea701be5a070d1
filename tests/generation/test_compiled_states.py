"""Compiled steps see what others do to a state or a memory between them, and threads do not disturb each other."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import pytest
import torch
from models.compiled_decoding import alike, count_steps, needs_compiler
from models.searches import begin, make_search, sharpen
from models.tiny_models import build, random_tokens

from kit import Cache, Model, NotCompiledWarning, Request, SpecialTokenIds, TokenBatch, compile_steps
from kit.generation import compiled_decoder
from kit.generation.flat_cache import FlattenedCache
from kit.sequence.batch_layout import BatchLayout
from kit.sequence.observer import AttentionRecorder
from kit_head.language import LanguageOptions


def stepped(model: Model, source: int | None, steps: int = 6) -> torch.Tensor:
    """Scores of some steps of one text."""
    with torch.no_grad():
        session = model.start() if source is None else model.start(random_tokens(source))  # type: ignore[operator]
        return torch.cat([session.step(torch.tensor([[5 + number]])) for number in range(steps)], 1)


def compiled_and_plain(family: str) -> tuple[Model, Model]:
    """The same model twice; the first one's steps are compiled."""
    first, second = (build(family, {"depth": 1}).float() for _ in range(2))
    compile_steps(first)
    return first, second


@needs_compiler
def test_sources_of_any_length_and_however_they_lie_are_read_the_same() -> None:
    model, plain = compiled_and_plain("encoder-decoder")
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotCompiledWarning)
        for source in (4, 9, 1, 4, 32, 2):  # as many as heads, one, as wide as the model
            assert (stepped(model, source) - stepped(plain, source)).abs().max() < 1e-4
    assert 0 < count_steps(model) < 8, "a length is no kind of its own"
    ids = random_tokens(12).ids
    with torch.no_grad():
        for given in (ids[:, ::2], ids.t()[:5].t(), ids.flip(1)):
            found = [each.encode(given).x for each in (model, plain)]  # type: ignore[operator]
            assert (found[0] - found[1]).abs().max() < 1e-4
        features = MappingProxyType({"segment": torch.zeros_like(ids)})
        found = [each.encode(TokenBatch(ids, features=features)).x for each in (model, plain)]  # type: ignore[operator]
        assert (found[0] - found[1]).abs().max() < 1e-4


@needs_compiler
def test_a_state_that_somebody_changes_between_steps_is_the_changed_one() -> None:
    model, plain = compiled_and_plain("decoder")
    found = []
    for each in (model, plain):
        with torch.no_grad():
            session = each.start()  # type: ignore[operator]
            for number in range(4):
                session.step(torch.tensor([[5 + number]]))
            for tensor in session.state.tensors():
                tensor.mul_(0.5)
            session.state.reserve(100)
            found.append(torch.cat([session.step(torch.tensor([[9 + number]])) for number in range(4)], 1))
    assert count_steps(model) > 0 and (found[0] - found[1]).abs().max() < 1e-4
    assert (found[1] - stepped(plain, None, 8)[:, 4:]).abs().max() > 1e-3, "the change is seen"


@needs_compiler
def test_another_memory_is_read_from_then_on() -> None:
    model, plain = compiled_and_plain("encoder-decoder")
    found = []
    for each in (model, plain):
        with torch.no_grad():
            session = each.start(random_tokens(6))  # type: ignore[operator]
            for number in range(4):
                session.step(torch.tensor([[5 + number]]))
            if each is model:
                assert not session.state.is_materialized
            session.memory = session.memory.reorder(torch.tensor([0]))
            found.append(session.step(torch.tensor([[9]])))
            assert each is plain or session.state.encoder_output is session.memory
    assert (found[0] - found[1]).abs().max() < 1e-4


@needs_compiler
def test_a_tensor_that_is_changed_in_place_and_held_in_parts_too_is_not_compiled() -> None:
    class Seen(Cache):
        """Sums in a buffer, of which it keeps a view."""

        def __init__(self) -> None:
            self.sums = torch.zeros(2, 4)
            self.first = self.sums[0]

        def reorder(self, rows: torch.Tensor) -> None:
            """Nothing to choose from."""

        def tensors(self) -> list[torch.Tensor]:
            """The sums."""
            return [self.sums]

    def plain(decoder: Any, tokens: TokenBatch, layout: object, memory: object, state: Any, observer: object) -> Any:
        state.sums.add_(tokens.ids.sum())
        return state.first * 2, state.first + 1

    found = []
    steps = compiled_decoder.CompiledDecoder(plain, batches=False, cpu=True)
    seen, tokens = FlattenedCache(Seen()), TokenBatch.of(torch.tensor([[3]]))

    def three_times() -> None:
        with torch.no_grad():
            for _ in range(3):
                found.append(steps(None, tokens, BatchLayout.of(tokens), None, seen, None)[0])  # type: ignore[arg-type]

    with pytest.warns(NotCompiledWarning, match="a tensor is changed in place that its cache holds in parts too"):
        three_times()
    assert [float(each[0]) for each in found] == [6.0, 12.0, 18.0]


@needs_compiler
def test_threads_write_the_same_at_once() -> None:
    model, plain = compiled_and_plain("encoder-decoder")
    sources = [3, 1, 7, 12]
    wanted = [stepped(plain, source) for source in sources]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = list(pool.map(lambda source: stepped(model, source), sources))
            assert max(float((a - b).abs().max()) for a, b in zip(found, wanted, strict=True)) < 1e-4
    assert len(set(model.decode_step.signatures.values())) == len(model.decode_step.signatures)  # type: ignore[attr-defined]
    assert count_steps(model) > 0


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
def test_beams_of_batches_that_end_at_different_times_are_the_same(family: str) -> None:
    models = [sharpen(build(family, {"depth": 1}, head=LanguageOptions(bias=True)), end=6.0).float() for _ in range(2)]
    compile_steps(models[1], batches=True)
    found = []
    for model in models:
        source = random_tokens(*range(3, 23))
        session = begin(model, source)
        prompt = None if family == "encoder-decoder" else source
        with warnings.catch_warnings():
            warnings.simplefilter("error", NotCompiledWarning)
            request = Request(length=[*range(2, 62, 3)], prompt=prompt, special_tokens=SpecialTokenIds())
            best = make_search("beam", {"size": 3}).search(session, request)
        found.append([(each[0].tokens, each[0].score) for each in best])
    assert len({len(tokens) for tokens, _ in found[0]}) > 3, "texts end at different times"
    assert alike([found[0]], [found[1]]) and count_steps(models[1]) > 0


@needs_compiler
def test_gradients_watchers_and_half_precision_are_left_to_the_plain_step() -> None:
    model = build("decoder").float()
    compile_steps(model)
    session = model.start()  # type: ignore[operator]
    scores = session.step(torch.tensor([[5]]))
    scores.sum().backward()
    assert count_steps(model) == 0 and any(parameter.grad is not None for parameter in model.parameters())
    with torch.no_grad():
        observer = AttentionRecorder()
        model.start(observer=observer).step(torch.tensor([[5]]))  # type: ignore[operator]
        assert count_steps(model) == 0 and observer.by_site
        with torch.autocast("cpu", torch.bfloat16):
            stepped(model, None, 3)
        assert count_steps(model) == 0
        stepped(model, None, 3)
        assert count_steps(model) > 0
