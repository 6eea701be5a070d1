"""The optimizers by the names that recipes give them."""

from __future__ import annotations

from typing import Any

import kit_optimizer
from kit import Optimizer

PARTS: dict[str, Any] = {part.name(): part for part in kit_optimizer.kit_components()}


def optimizer(use: str, **options: Any) -> Optimizer:
    """One of them, with these options."""
    part = PARTS[use]
    built = part(part.options_type(use=use, **options))
    assert isinstance(built, Optimizer)
    return built
