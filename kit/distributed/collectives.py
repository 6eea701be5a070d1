"""Collectives over all ranks of a training: sums, broadcasts and gathered texts; of one process alone they are free."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import distributed

from kit.kernels.devices import collective_device

MAX_TEXT_BYTES = 4096
"""What is cut off a text that is gathered."""


def world_size() -> int:
    """The number of ranks."""
    return distributed.get_world_size() if _is_initialized() else 1


def rank() -> int:
    """The rank of this process."""
    return distributed.get_rank() if _is_initialized() else 0


def data_parallel_rank(tensor_parallel: int) -> int:
    """Which part of every batch this rank computes; the ranks of a tensor-parallel group compute the same part."""
    return rank() // tensor_parallel


def all_reduce_sum(numbers: Sequence[float]) -> list[float]:
    """The sum of each number over all ranks. Collective: every rank must call it, with as many numbers."""
    if not _is_initialized():
        return [float(number) for number in numbers]
    total = torch.tensor(numbers, dtype=torch.float64, device=collective_device())
    distributed.all_reduce(total)
    values: list[float] = total.tolist()
    return values


def broadcast(number: float) -> float:
    """The number of rank 0. Collective; keeps decisions that depend on rounding the same on all ranks."""
    return all_reduce_sum([number if rank() == 0 else 0.0])[0]


def all_gather_text(text: str) -> list[str]:
    """The texts of all ranks, cut to MAX_TEXT_BYTES. Collective."""
    if not _is_initialized():
        return [text]
    encoded = text.encode()[:MAX_TEXT_BYTES].ljust(MAX_TEXT_BYTES, b"\0")
    own = torch.frombuffer(bytearray(encoded), dtype=torch.uint8).to(collective_device())
    gathered = [torch.empty_like(own) for _ in range(world_size())]
    distributed.all_gather(gathered, own)
    return [bytes(one.cpu().numpy()).rstrip(b"\0").decode(errors="ignore") for one in gathered]


def _is_initialized() -> bool:
    return distributed.is_available() and distributed.is_initialized()
