"""A state that lies apart does what the state itself does, and is after compiled steps what it is after plain ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
import torch
from models.tiny_models import build, random_tokens

from kit import compile_steps
from kit.generation.flat_cache import FlattenedCache
from kit.sequence.cache import Cache, CacheList, CrossAttentionKVCache, KVCache, RecurrentCache

CHANGES: dict[str, Callable[[Cache], object]] = {
    "select": lambda state: state.reorder(torch.tensor([1, 0, 1])),
    "share": lambda state: state.share_across_beams(),
    "reserve": lambda state: state.reserve(40),
    "keep tokens": lambda state: state.evict_except(torch.tensor([[0, 2], [1, 3]])),
    "nothing": lambda state: None,
}


class Sums(RecurrentCache):
    def evict_except(self, tokens_BK: torch.Tensor) -> None:
        """Sums have no tokens."""


def made() -> CacheList:
    torch.manual_seed(0)
    keys, memory, sums = KVCache(), CrossAttentionKVCache(), Sums()
    keys.append(torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4))
    memory.store(torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4))
    sums.values["sum"] = torch.randn(2, 4)
    return CacheList([keys, memory, sums])


@pytest.mark.parametrize("as_leaves", [True, False], ids=["flattened", "materialized"])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_reach_the_state(change: str, as_leaves: bool) -> None:
    state, flattened = made(), FlattenedCache(made())
    if as_leaves:
        flattened.flatten()
        assert not flattened.is_materialized
    CHANGES[change](state)
    CHANGES[change](flattened)
    assert all(torch.equal(one, other) for one, other in zip(state.tensors(), flattened.tensors(), strict=True))
    assert flattened.bytes == state.bytes and flattened.is_materialized
    buffers = [each.parts[0]._buffers for each in (state, flattened.materialize())]  # type: ignore[attr-defined]
    assert buffers[0][0].shape == buffers[1][0].shape and buffers[0][0].stride() == buffers[1][0].stride()


def test_another_memory_is_flattened_anew() -> None:
    flattened = FlattenedCache(made())
    flattened.flatten()
    first, second = [torch.zeros(1)], [torch.ones(1)]
    flattened.bind_encoder_output(first)
    flattened.signature = 3
    flattened.bind_encoder_output(first)
    assert flattened.signature == 3
    flattened.bind_encoder_output(second)
    assert flattened.signature is None and flattened.encoder_leaves[0] is second[0]


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="there is no C++ compiler here")
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
def test_after_compiled_steps_the_state_is_the_same(family: str) -> None:
    plain, compiled = (build(family, {"depth": 1}).float() for _ in range(2))
    compile_steps(compiled)
    found = []
    for model in (plain, compiled):
        with torch.no_grad():
            session = model.start(random_tokens(6)) if family == "encoder-decoder" else model.start()  # type: ignore[operator]
            for token in range(5, 25):
                session.step(torch.tensor([[token]]))
        found.append(session)
    assert (
        isinstance(found[1].state, FlattenedCache) and not found[1].state.is_materialized and compiled.decode_step.steps
    )  # type: ignore[attr-defined,union-attr]
    pairs = list(zip(found[0].state.tensors(), found[1].state.tensors(), strict=True))
    assert pairs and all(one.shape == other.shape for one, other in pairs)
    assert max(float((one - other).abs().max()) for one, other in pairs) < 1e-5
