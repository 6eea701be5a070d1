"""Compiled steps write what the model writes; parts that cannot be compiled run as they are."""

from __future__ import annotations

import shutil
import warnings
from typing import Any

import pytest
import torch
from models.compiled_decoding import alike, count_steps, needs_compiler
from models.searches import make_search
from models.tiny_models import KIT, build, random_tokens

from kit import (
    KitError,
    Model,
    NotCompiledWarning,
    Request,
    SpecialTokenIds,
    TokenBatch,
    compile_steps,
    prepack_weights,
)
from kit.generation import compiled_decoder
from kit.kernels.cpp import decode
from kit.kernels.decoding import PrepackedLinear

CATALOGUE = KIT.registry.names("attention")
ENDLESS = SpecialTokenIds(end=-1)
"""No text ends before its length."""


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room runs out, and what no row descends from is forgotten, in texts of a few tokens already."""
    monkeypatch.setattr(compiled_decoder, "RESERVED_STEPS", 16)
    monkeypatch.setattr("kit.model.decoding_session.MIN_EVICTION_LENGTH", 64)


def written(model: Model, rows: int, searches: dict[str, dict[str, object]]) -> list[list[tuple[list[int], float]]]:
    """What each search finds: tokens and scores."""
    found = []
    for name, options in searches.items():
        prompt = None if hasattr(model, "encoder") else TokenBatch.of(random_tokens(*[3] * rows, seed=2))
        session = model.start(random_tokens(*range(6, 6 + rows))) if prompt is None else model.start()  # type: ignore[operator]
        best = make_search(name, options).search(session, Request(length=24, prompt=prompt, special_tokens=ENDLESS))
        found.append([(each[0].tokens, each[0].score) for each in best])
    return found


@needs_compiler
@pytest.mark.parametrize(
    ("rows", "native"),
    [
        ([1], True),
        pytest.param([1], False, marks=pytest.mark.slow),
        pytest.param([1, 2, 18, 3, 1], True, marks=pytest.mark.slow),
        pytest.param([1, 2, 18, 3, 1], False, marks=pytest.mark.slow),
    ],
    ids=["one text, native", "one text, torch", "several, native", "several, torch"],
)
def test_compiled_steps_write_the_same(rows: list[int], native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if native:
        assert decode.LIBRARY.load()
    else:
        monkeypatch.setattr(decode.LIBRARY, "load", lambda: False)
        monkeypatch.setattr(decode.LIBRARY, "loaded", False)
    searches: dict[str, dict[str, object]] = {"greedy": {}, "beam": {"size": 3}}
    models = [build("encoder-decoder", {"depth": 1}).float() for _ in range(2)]
    for parameter in models[1].parameters():
        parameter.data *= 1.5
    before = [[written(model, each, searches) for each in rows] for model in models]
    assert not all(map(alike, *before)), "two models that differ"
    for model, wanted in zip(models, before, strict=True):
        prepack_weights(model)
        assert native == any(
            module.backend == "native" for module in model.modules() if isinstance(module, PrepackedLinear)
        )
        compile_steps(model, batches=len(rows) > 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error", NotCompiledWarning)
            compiled = [written(model, each, searches) for each in rows]
        assert all(map(alike, wanted, compiled))
        assert count_steps(model) > 0, "nothing was compiled"


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("attention", CATALOGUE)
def test_every_attention_writes_the_same_or_says_that_it_is_not_compiled(attention: str) -> None:
    component = KIT.registry.find("attention", attention).component
    if not component.capabilities.incremental or not component.capabilities.reads_self:  # type: ignore[attr-defined]
        pytest.skip("cannot write token by token")
    model = build("decoder", {"attention": component.options_type()}, length=256).float()
    before = written(model, 1, {"greedy": {}})
    compile_steps(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        assert alike(before, written(model, 1, {"greedy": {}}))


@needs_compiler
def test_a_step_that_cannot_be_compiled_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **options: object) -> None:
        raise RuntimeError("a part does what no compiler can follow\nand more")

    monkeypatch.setattr(compiled_decoder, "CompiledGraph", fail)
    model = build("decoder")
    before = written(model, 1, {"greedy": {}})
    compile_steps(model)
    with pytest.warns(NotCompiledWarning, match="slower for it: a part does what no compiler can follow$"):
        assert alike(before, written(model, 1, {"greedy": {}}))


@needs_compiler
def test_a_state_that_is_not_made_of_tensors_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("decoder")
    before = written(model, 1, {"greedy": {}})
    stack, start = model.decoder.stack, model.decoder.stack.start  # type: ignore[attr-defined,union-attr]

    def odd() -> object:
        state = start()
        state.odd = lambda: None  # type: ignore[attr-defined]
        return state

    monkeypatch.setitem(stack.__dict__, "start", odd)
    compile_steps(model)
    with pytest.warns(NotCompiledWarning, match="a function is part of its cache"):
        assert alike(before, written(model, 1, {"greedy": {}}))


def test_what_cannot_be_compiled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KitError, match="this one has no decoder"):
        compile_steps(build("encoder"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(KitError, match=r"there is no g\+\+ or clang\+\+ here; install one, or do without"):
        compile_steps(build("decoder"))


@needs_compiler
def test_more_kinds_of_step_than_are_kept_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_decoder, "MAX_STEP_KINDS", 0)
    model = build("decoder")
    before = written(model, 1, {"greedy": {}})
    compile_steps(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotCompiledWarning)
        assert alike(before, written(model, 1, {"greedy": {}}))
    assert count_steps(model) == 0


@needs_compiler
@pytest.mark.parametrize(("batches", "compiled"), [(False, {1}), (True, {1, 16, 20})])
def test_single_texts_are_compiled_and_large_batches_where_wanted(
    batches: bool, compiled: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()

    class Taken:
        """Takes the step as it is."""

        mutated = integer_outputs = ()
        entry = None

        def __init__(self, function: Any, leaves: object, same: object, cpu: bool) -> None:
            self.function = function
            function(*leaves)  # what it does to the state is known after one trace

        def fits(self, leaves: object) -> bool:
            return True

        def __call__(self, leaves: Any) -> Any:
            seen.add(leaves[0].shape[0])
            return self.function(*leaves)

    monkeypatch.setattr(compiled_decoder, "CompiledGraph", Taken)
    model = build("encoder-decoder")
    monkeypatch.setattr(compiled_decoder, "CompiledEncoder", lambda plain: plain)
    compile_steps(model, batches=batches)
    for rows in (1, 2, 15, 16, 20):
        before = written(build("encoder-decoder"), rows, {"greedy": {}})
        assert alike(before, written(model, rows, {"greedy": {}}))
    assert seen == compiled


@needs_compiler
def test_rows_chosen_in_between_and_long_texts_are_written_the_same() -> None:
    models = [build("encoder-decoder", {"depth": 1}).float() for _ in range(2)]
    prepack_weights(models[1])
    compile_steps(models[1])
    ids = torch.randint(5, 20, (100, 1), generator=torch.Generator().manual_seed(3))
    found = []
    for model in models:
        with torch.no_grad():
            session = model.start(random_tokens(4))
            given = []
            for number, token in enumerate(ids):
                if number in (7, 50):
                    session.reorder(torch.tensor([0]))
                given.append(session.step(token[None]))
            found.append(torch.cat(given, 1))
    assert count_steps(models[1]) > 0
    assert (found[0] - found[1]).abs().max() < 1e-4
    assert not torch.equal(found[0], found[1]), "compiled steps round otherwise; were they taken?"
