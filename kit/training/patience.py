"""Which measurement was the best so far, and whether it is time to give up waiting for a better one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass
class Patience:
    """Follows one figure over the measurements of a training."""

    metric: str
    lower_is_better: bool = True
    limit: int | None = None
    """How many measurements in a row may pass without a new best; None for any number."""
    best: float | None = None
    waited: int = 0

    def see(self, figure: float) -> bool:
        """Take a new measurement into account; says whether it is the best so far."""
        sign = 1 if self.lower_is_better else -1
        better = math.isfinite(figure) and (self.best is None or sign * figure < sign * self.best)
        self.best, self.waited = (figure, 0) if better else (self.best, self.waited + 1)
        return better

    @property
    def is_over(self) -> bool:
        """Whether training should end."""
        return self.limit is not None and self.waited >= self.limit

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"best": self.best, "waited": self.waited}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.best, self.waited = state["best"], state["waited"]
