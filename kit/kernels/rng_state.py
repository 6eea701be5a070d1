"""The random number generators of a process: seeded, saved into a checkpoint, restored, and preserved."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed_all(seed: int, *stream: int) -> None:
    """Seed every generator from a seed and any numbers that tell one stream from another, such as the rank."""
    first, second, third = np.random.SeedSequence([seed, *stream]).generate_state(3)
    torch.manual_seed(int(first))
    np.random.seed(int(second))
    random.seed(int(third))


def get_rng_state() -> dict[str, Any]:
    """The state of every generator of this process, as plain data and tensors."""
    name, keys, *rest = np.random.get_state(legacy=True)
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [str(name), torch.from_numpy(np.asarray(keys).astype(np.int64)), *map(float, rest)],
        "python": random.getstate(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_rng_state(state: Mapping[str, Any]) -> None:
    """Restore what `get_rng_state` returned."""
    torch.set_rng_state(state["torch"])
    name, keys, index, has_gaussian, gaussian = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), int(index), int(has_gaussian), gaussian))
    random.setstate(state["python"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Restore every generator on exit, whatever is drawn inside."""
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


@contextmanager
def fork_rng_per_tp_rank(rank: int, device: torch.device) -> Iterator[None]:
    """Fork torch's generators: the ranks of a tensor-parallel group draw differently inside, and alike afterwards."""
    before = torch.get_rng_state()
    seed = int(torch.randint(1 << 62, ()))
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed + rank)
        fresh = torch.get_rng_state()
        yield
        unused = device.type == "cpu" and torch.equal(fresh, torch.get_rng_state())
    if unused:  # then one process alone would have drawn nothing either
        torch.set_rng_state(before)
