"""Several torch optimizers as one, with one list of groups and one state for schedules and checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class JoinedOptimizer(torch.optim.Optimizer):
    """Steps each of its parts."""

    def __init__(self, parts: list[torch.optim.Optimizer]) -> None:
        self.parts = parts
        self.sizes = [len(part.param_groups) for part in parts]
        super().__init__([group for part in parts for group in part.param_groups], {})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of each."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        start = 0
        for part, size in zip(self.parts, self.sizes, strict=True):
            # Shared anew every time: loading a checkpoint replaces both the list of groups and the state.
            part.param_groups = self.param_groups[start : start + size]
            part.state = self.state
            part.step()
            start += size
        return loss
