"""The processes that write a checkpoint together, and how they agree that all of it was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self


def _alone(done: bool) -> bool:
    return done


@dataclass(frozen=True)
class Ranks:
    """Which process this is, of how many, and how all of them meet."""

    rank: int = 0
    world: int = 1
    agree: Callable[[bool], bool] = _alone
    """A barrier that carries failures: waits until every process has called it, says whether all of them said True."""

    @classmethod
    def current(cls) -> Self:
        """The processes of torch's process group; this one alone where there is none."""
        import torch
        from torch import distributed

        if not (distributed.is_available() and distributed.is_initialized()):
            return cls()

        def agree(done: bool) -> bool:
            device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
            votes = torch.tensor(int(done), device=device)
            distributed.all_reduce(votes, op=distributed.ReduceOp.MIN)
            return bool(votes.item())

        return cls(distributed.get_rank(), distributed.get_world_size(), agree)
