"""The contract of a scaling: how far each pair of a rotary position turns from one token to the next.

Shapes: P pairs that turn.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, TypeAlias

import torch
from pydantic import Field
from torch import Tensor

from kit import Component, Dims, Options, Site, Slot

ScalingSlot: TypeAlias = Annotated[Options, Slot("scaling")]
Stretch: TypeAlias = Annotated[float, Field(ge=1)]
"""How many times as long texts become."""


def frequencies(width: int, base: float, device: torch.device | None = None) -> Tensor:
    """How far each pair turns from one position to the next: base^(-2i/width), [P] in float64."""
    return base ** -(torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)


class Scaling(Component):
    """Changes the frequencies; `dims.head_width` is how many numbers of a query turn."""

    kind = "scaling"

    gain: float = 1.0
    """What turned queries and keys are multiplied by."""

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        self.options = options
        self.width = dims.head_width

    @abstractmethod
    def frequencies(self, base: float, device: torch.device) -> Tensor:
        """[P] in float64."""
