"""Compiled steps write what the model writes; parts that cannot be compiled run as they are."""

from __future__ import annotations

import shutil
import warnings
from typing import Any

import pytest
import torch
from builders import KIT, build, texts
from searches import make_search

from kit import KitError, Model, NotCompiledWarning, Request, Signs, Tokens, arrange, compile_steps
from kit.decoding import arranging

CATALOGUE = KIT.registry.names("attention")
ENDLESS = Signs(end=-1)
"""No text ends before its length."""

needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="there is no C++ compiler here"
)


def written(model: Model, rows: int, searches: dict[str, dict[str, object]]) -> list[list[tuple[list[int], float]]]:
    """What each search finds: tokens and scores."""
    found = []
    for name, options in searches.items():
        prompt = None if hasattr(model, "encoder") else Tokens.of(texts(*[3] * rows, seed=2))
        session = model.start(texts(*range(6, 6 + rows))) if prompt is None else model.start()  # type: ignore[operator]
        best = make_search(name, options).search(session, Request(length=24, prompt=prompt, signs=ENDLESS))
        found.append([(each[0].tokens, each[0].score) for each in best])
    return found


def alike(one: list[list[tuple[list[int], float]]], other: list[list[tuple[list[int], float]]]) -> bool:
    pairs = [pair for left, right in zip(one, other, strict=True) for pair in zip(left, right, strict=True)]
    return all(a[0] == b[0] and a[1] == pytest.approx(b[1], abs=1e-4) for a, b in pairs)


@needs_compiler
@pytest.mark.parametrize(
    ("rows", "onednn"),
    [
        ([1], True),
        pytest.param([1, 2, 18, 3, 1], True, marks=pytest.mark.slow),
        pytest.param([1, 2, 18, 3, 1], False, marks=pytest.mark.slow),
    ],
    ids=["one text, oneDNN", "several, oneDNN", "several, MKL"],
)
def test_compiled_steps_write_the_same(rows: list[int], onednn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arranging, "prefers_onednn", lambda: onednn)
    searches: dict[str, dict[str, object]] = {"greedy": {}, "beam": {"size": 3}}
    models = [build("encoder-decoder", {"depth": 1}).float() for _ in range(2)]
    for parameter in models[1].parameters():
        parameter.data *= 1.5
    before = [[written(model, each, searches) for each in rows] for model in models]
    assert not all(map(alike, *before)), "two models that differ"
    for model, wanted in zip(models, before, strict=True):
        arrange(model)
        compile_steps(model, batches=len(rows) > 1)
        torch._dynamo.utils.counters.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("error", NotCompiledWarning)
            compiled = [written(model, each, searches) for each in rows]
        assert all(map(alike, wanted, compiled))
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0, "nothing was compiled"


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("attention", CATALOGUE)
def test_every_attention_writes_the_same_or_says_that_it_is_not_compiled(attention: str) -> None:
    component = KIT.registry.find("attention", attention).component
    if not component.abilities.steps or not component.abilities.reads_self:  # type: ignore[attr-defined]
        pytest.skip("cannot write token by token")
    model = build("decoder", {"attention": component.options_type()}, length=256).float()
    before = written(model, 1, {"greedy": {}})
    compile_steps(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        assert alike(before, written(model, 1, {"greedy": {}}))


def test_a_step_that_cannot_be_compiled_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **options: object) -> None:
        raise torch._dynamo.exc.TorchDynamoException("a part does what no compiler can follow\nand more")

    monkeypatch.setattr(torch, "compile", lambda function, **options: fail)
    model = build("decoder")
    before = written(model, 1, {"greedy": {}})
    compile_steps(model)
    with pytest.warns(NotCompiledWarning, match="slower for it: a part does what no compiler can follow$"):
        assert alike(before, written(model, 1, {"greedy": {}}))


def test_what_cannot_be_compiled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KitError, match="this one has no decoder"):
        compile_steps(build("encoder"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(KitError, match=r"there is no g\+\+ or clang\+\+ here; install one, or do without"):
        compile_steps(build("decoder"))


@needs_compiler
def test_more_kinds_of_step_than_torch_keeps_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise torch._dynamo.exc.FailOnRecompileLimitHit("Hard failure due to fullgraph=True")

    monkeypatch.setattr(torch, "compile", lambda function, **options: refuse)
    model = build("decoder")
    before = written(model, 1, {"greedy": {}})
    compile_steps(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotCompiledWarning)
        assert alike(before, written(model, 1, {"greedy": {}}))


@needs_compiler
@pytest.mark.parametrize(("batches", "compiled"), [(False, {1}), (True, {1, 16, 20})])
def test_single_texts_are_compiled_and_large_batches_where_wanted(
    batches: bool, compiled: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()

    def compile(function: Any, **options: object) -> Any:
        def quick(decoder: Any, tokens: Tokens, *given: object) -> object:
            seen.add(tokens.ids.shape[0])
            return function(decoder, tokens, *given)

        return quick

    monkeypatch.setattr(torch, "compile", compile)
    model = build("decoder")
    compile_steps(model, batches=batches)
    for rows in (1, 2, 15, 16, 20):
        written(model, rows, {"greedy": {}})
    assert seen == compiled
