"""What all processes of a training have to agree on at the end of each step, in one exchange of a few numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import distributed

LONGEST = 4096
"""How many bytes of a text are passed on."""


def processes() -> int:
    """How many processes train together."""
    return distributed.get_world_size() if _together() else 1


def process() -> int:
    """Which of them this is."""
    return distributed.get_rank() if _together() else 0


def data_process(tensor: int) -> int:
    """Which share of every batch this process computes; the `tensor` processes that share each layer have the same."""
    return process() // tensor


def summed(numbers: Sequence[float]) -> list[float]:
    """The sum of each number over all processes; every process has to call it, with as many."""
    if not _together():
        return [float(number) for number in numbers]
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    total = torch.tensor(numbers, dtype=torch.float64, device=device)
    distributed.all_reduce(total)
    values: list[float] = total.tolist()
    return values


def from_first(number: float) -> float:
    """What the first process has: decisions that hang on rounding are made once, not by each for itself."""
    return summed([number if process() == 0 else 0.0])[0]


def told(text: str) -> list[str]:
    """What every process has to say, by rank; every process has to call it, and long texts are cut."""
    if not _together():
        return [text]
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    encoded = text.encode()[:LONGEST].ljust(LONGEST, b"\0")
    own = torch.frombuffer(bytearray(encoded), dtype=torch.uint8).to(device)
    all_ = [torch.empty_like(own) for _ in range(processes())]
    distributed.all_gather(all_, own)
    return [bytes(one.cpu().numpy()).rstrip(b"\0").decode(errors="ignore") for one in all_]


def _together() -> bool:
    return distributed.is_available() and distributed.is_initialized()
