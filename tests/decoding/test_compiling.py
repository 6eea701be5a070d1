"""Compiled steps write what the model writes; parts that cannot be compiled run as they are."""

from __future__ import annotations

import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import pytest
import torch
from builders import KIT, build, texts
from searches import begin, make_search, sharpen

from kit import KitError, Model, NotCompiledWarning, Request, Signs, State, Tokens, arrange, compile_steps
from kit.decoding import compiling
from kit.decoding.arranging import Arranged
from kit.decoding.loose import Loose
from kit.layout import Layout
from kit.native import few
from kit.watching import Recorder
from kit_head.language import LanguageOptions

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


def programs(model: Model) -> int:
    """How many kinds of step were compiled."""
    return sum(map(len, model.advance.programs.values()))  # type: ignore[attr-defined]


def alike(one: list[list[tuple[list[int], float]]], other: list[list[tuple[list[int], float]]]) -> bool:
    pairs = [pair for left, right in zip(one, other, strict=True) for pair in zip(left, right, strict=True)]
    return all(a[0] == b[0] and a[1] == pytest.approx(b[1], abs=1e-4) for a, b in pairs)


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
        assert few.LIBRARY.load()
    else:
        monkeypatch.setattr(few.LIBRARY, "load", lambda: False)
        monkeypatch.setattr(few.LIBRARY, "loaded", False)
    searches: dict[str, dict[str, object]] = {"greedy": {}, "beam": {"size": 3}}
    models = [build("encoder-decoder", {"depth": 1}).float() for _ in range(2)]
    for parameter in models[1].parameters():
        parameter.data *= 1.5
    before = [[written(model, each, searches) for each in rows] for model in models]
    assert not all(map(alike, *before)), "two models that differ"
    for model, wanted in zip(models, before, strict=True):
        arrange(model)
        assert native == any(module.library == "native" for module in model.modules() if isinstance(module, Arranged))
        compile_steps(model, batches=len(rows) > 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error", NotCompiledWarning)
            compiled = [written(model, each, searches) for each in rows]
        assert all(map(alike, wanted, compiled))
        assert programs(model) > 0, "nothing was compiled"


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


@needs_compiler
def test_a_step_that_cannot_be_compiled_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **options: object) -> None:
        raise RuntimeError("a part does what no compiler can follow\nand more")

    monkeypatch.setattr(compiling, "Program", fail)
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
    with pytest.warns(NotCompiledWarning, match="a function is part of its state"):
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
    monkeypatch.setattr(compiling, "KINDS", 0)
    model = build("decoder")
    before = written(model, 1, {"greedy": {}})
    compile_steps(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotCompiledWarning)
        assert alike(before, written(model, 1, {"greedy": {}}))
    assert programs(model) == 0


@needs_compiler
@pytest.mark.parametrize(("batches", "compiled"), [(False, {1}), (True, {1, 16, 20})])
def test_single_texts_are_compiled_and_large_batches_where_wanted(
    batches: bool, compiled: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()

    class Taken:
        """Takes the step as it is."""

        changed = ()

        def __init__(self, function: Any, leaves: object, same: object, cpu: bool) -> None:
            self.function = function
            function(*leaves)  # what it does to the state is known after one trace

        def fits(self, leaves: object) -> bool:
            return True

        def __call__(self, leaves: Any) -> Any:
            seen.add(leaves[0].shape[0])
            return self.function(*leaves)

    monkeypatch.setattr(compiling, "Program", Taken)
    model = build("encoder-decoder")
    monkeypatch.setattr(compiling, "Sources", lambda plain: plain)
    compile_steps(model, batches=batches)
    for rows in (1, 2, 15, 16, 20):
        before = written(build("encoder-decoder"), rows, {"greedy": {}})
        assert alike(before, written(model, rows, {"greedy": {}}))
    assert seen == compiled


@needs_compiler
def test_rows_chosen_in_between_and_long_texts_are_written_the_same() -> None:
    models = [build("encoder-decoder", {"depth": 1}).float() for _ in range(2)]
    arrange(models[1])
    compile_steps(models[1])
    ids = torch.randint(5, 20, (100, 1), generator=torch.Generator().manual_seed(3))
    found = []
    for model in models:
        with torch.no_grad():
            session = model.start(texts(4))
            given = []
            for number, token in enumerate(ids):
                if number in (7, 50):
                    session.select(torch.tensor([0]))
                given.append(session.step(token[None]))
            found.append(torch.cat(given, 1))
    assert programs(models[1]) > 0
    assert (found[0] - found[1]).abs().max() < 1e-4
    assert not torch.equal(found[0], found[1]), "compiled steps round otherwise; were they taken?"


def stepped(model: Model, source: int | None, steps: int = 6) -> torch.Tensor:
    """Scores of some steps of one text."""
    with torch.no_grad():
        session = model.start() if source is None else model.start(texts(source))  # type: ignore[operator]
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
    assert 0 < programs(model) < 8, "a length is no kind of its own"
    ids = texts(12).ids
    with torch.no_grad():
        for given in (ids[:, ::2], ids.t()[:5].t(), ids.flip(1)):
            found = [each.encode(given).x for each in (model, plain)]  # type: ignore[operator]
            assert (found[0] - found[1]).abs().max() < 1e-4
        facts = MappingProxyType({"segment": torch.zeros_like(ids)})
        found = [each.encode(Tokens(ids, facts=facts)).x for each in (model, plain)]  # type: ignore[operator]
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
    assert programs(model) > 0 and (found[0] - found[1]).abs().max() < 1e-4
    assert (found[1] - stepped(plain, None, 8)[:, 4:]).abs().max() > 1e-3, "the change is seen"


@needs_compiler
def test_another_memory_is_read_from_then_on() -> None:
    model, plain = compiled_and_plain("encoder-decoder")
    found = []
    for each in (model, plain):
        with torch.no_grad():
            session = each.start(texts(6))  # type: ignore[operator]
            for number in range(4):
                session.step(torch.tensor([[5 + number]]))
            if each is model:
                assert not session.state.is_whole
            session.memory = session.memory.select(torch.tensor([0]))
            found.append(session.step(torch.tensor([[9]])))
            assert each is plain or session.state.memory is session.memory
    assert (found[0] - found[1]).abs().max() < 1e-4


@needs_compiler
def test_a_tensor_that_is_changed_in_place_and_held_in_parts_too_is_not_compiled() -> None:
    class Seen(State):
        """Sums in a buffer, of which it keeps a view."""

        def __init__(self) -> None:
            self.sums = torch.zeros(2, 4)
            self.first = self.sums[0]

        def select(self, rows: torch.Tensor) -> None:
            """Nothing to choose from."""

        def tensors(self) -> list[torch.Tensor]:
            """The sums."""
            return [self.sums]

    def plain(decoder: Any, tokens: Tokens, layout: object, memory: object, state: Any, watcher: object) -> Any:
        state.sums.add_(tokens.ids.sum())
        return state.first * 2, state.first + 1

    found = []
    steps = compiling._Steps(plain, batches=False, cpu=True)
    seen, tokens = Loose(Seen()), Tokens.of(torch.tensor([[3]]))

    def three_times() -> None:
        with torch.no_grad():
            for _ in range(3):
                found.append(steps(None, tokens, Layout.of(tokens), None, seen, None)[0])  # type: ignore[arg-type]

    with pytest.warns(NotCompiledWarning, match="a tensor is changed in place that its state holds in parts too"):
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
    assert len(set(model.advance.kinds.values())) == len(model.advance.kinds)  # type: ignore[attr-defined]
    assert programs(model) > 0


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
def test_beams_of_batches_that_end_at_different_times_are_the_same(family: str) -> None:
    models = [sharpen(build(family, {"depth": 1}, head=LanguageOptions(bias=True)), end=6.0).float() for _ in range(2)]
    compile_steps(models[1], batches=True)
    found = []
    for model in models:
        source = texts(*range(3, 23))
        session = begin(model, source)
        prompt = None if family == "encoder-decoder" else source
        with warnings.catch_warnings():
            warnings.simplefilter("error", NotCompiledWarning)
            request = Request(length=[*range(2, 62, 3)], prompt=prompt, signs=Signs())
            best = make_search("beam", {"size": 3}).search(session, request)
        found.append([(each[0].tokens, each[0].score) for each in best])
    assert len({len(tokens) for tokens, _ in found[0]}) > 3, "texts end at different times"
    assert alike([found[0]], [found[1]]) and programs(models[1]) > 0


@needs_compiler
def test_gradients_watchers_and_half_precision_are_left_to_the_plain_step() -> None:
    model = build("decoder").float()
    compile_steps(model)
    session = model.start()  # type: ignore[operator]
    scores = session.step(torch.tensor([[5]]))
    scores.sum().backward()
    assert programs(model) == 0 and any(parameter.grad is not None for parameter in model.parameters())
    with torch.no_grad():
        watcher = Recorder()
        model.start(watcher=watcher).step(torch.tensor([[5]]))  # type: ignore[operator]
        assert programs(model) == 0 and watcher.by_site
        with torch.autocast("cpu", torch.bfloat16):
            stepped(model, None, 3)
        assert programs(model) == 0
        stepped(model, None, 3)
        assert programs(model) > 0
