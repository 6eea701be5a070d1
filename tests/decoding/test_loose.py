"""A state that lies apart does what the state itself does, and is after compiled steps what it is after plain ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
import torch
from builders import build, texts

from kit import compile_steps
from kit.decoding.loose import Loose
from kit.state import KeyValueState, MemoryState, State, States, TensorState

CHANGES: dict[str, Callable[[State], object]] = {
    "select": lambda state: state.select(torch.tensor([1, 0, 1])),
    "share": lambda state: state.share(),
    "reserve": lambda state: state.reserve(40),
    "keep tokens": lambda state: state.keep_tokens(torch.tensor([[0, 2], [1, 3]])),
    "nothing": lambda state: None,
}


class Sums(TensorState):
    def keep_tokens(self, tokens_BK: torch.Tensor) -> None:
        """Sums have no tokens."""


def made() -> States:
    torch.manual_seed(0)
    keys, memory, sums = KeyValueState(), MemoryState(), Sums()
    keys.append(torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4))
    memory.keep(torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4))
    sums.values["sum"] = torch.randn(2, 4)
    return States([keys, memory, sums])


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "whole"])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_reach_the_state(change: str, apart: bool) -> None:
    state, loose = made(), Loose(made())
    if apart:
        loose.apart()
        assert not loose.is_whole
    CHANGES[change](state)
    CHANGES[change](loose)
    assert all(torch.equal(one, other) for one, other in zip(state.tensors(), loose.tensors(), strict=True))
    assert loose.bytes == state.bytes and loose.is_whole
    buffers = [each.parts[0]._buffers for each in (state, loose.whole())]  # type: ignore[attr-defined]
    assert buffers[0][0].shape == buffers[1][0].shape and buffers[0][0].stride() == buffers[1][0].stride()


def test_another_memory_is_taken_apart_anew() -> None:
    loose = Loose(made())
    loose.apart()
    first, second = [torch.zeros(1)], [torch.ones(1)]
    loose.beside(first)
    loose.kind = 3
    loose.beside(first)
    assert loose.kind == 3
    loose.beside(second)
    assert loose.kind is None and loose.beside_leaves[0] is second[0]


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="there is no C++ compiler here")
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
def test_after_compiled_steps_the_state_is_the_same(family: str) -> None:
    plain, compiled = (build(family, {"depth": 1}).float() for _ in range(2))
    compile_steps(compiled)
    found = []
    for model in (plain, compiled):
        with torch.no_grad():
            session = model.start(texts(6)) if family == "encoder-decoder" else model.start()  # type: ignore[operator]
            for token in range(5, 25):
                session.step(torch.tensor([[token]]))
        found.append(session)
    assert isinstance(found[1].state, Loose) and not found[1].state.is_whole and compiled.advance.programs  # type: ignore[attr-defined,union-attr]
    pairs = list(zip(found[0].state.tensors(), found[1].state.tensors(), strict=True))
    assert pairs and all(one.shape == other.shape for one, other in pairs)
    assert max(float((one - other).abs().max()) for one, other in pairs) < 1e-5
