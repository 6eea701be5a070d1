"""The random generators of a process: taken down for a checkpoint, put back, and kept as they are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def begin(seed: int, *stream: int) -> None:
    """Seed every generator from a seed and any numbers that tell one stream from another, such as the rank."""
    first, second, third = np.random.SeedSequence([seed, *stream]).generate_state(3)
    torch.manual_seed(int(first))
    np.random.seed(int(second))
    random.seed(int(third))


def take() -> dict[str, Any]:
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


def put(state: Mapping[str, Any]) -> None:
    """Go on from a state."""
    torch.set_rng_state(state["torch"])
    name, keys, place, has_normal, normal = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), int(place), int(has_normal), normal))
    random.setstate(state["python"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


@contextmanager
def untouched() -> Iterator[None]:
    """Whatever draws random numbers inside leaves the generators as they were."""
    state = take()
    try:
        yield
    finally:
        put(state)
