"""Contract of RoPE scaling: the rotation frequency of each pair.

Shapes: P rotated pairs.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, TypeAlias

import torch
from pydantic import Field
from torch import Tensor

from kit import BuildContext, Component, Dims, Options, Slot

ScalingSlot: TypeAlias = Annotated[Options, Slot("scaling")]
Stretch: TypeAlias = Annotated[float, Field(ge=1)]
"""Factor by which the context is extended."""


def frequencies(width: int, base: float, device: torch.device | None = None) -> Tensor:
    """RoPE frequencies base^(-2i/width): [P] in float64."""
    return base ** -(torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)


class Scaling(Component):
    """Changes the frequencies of RoPE; `dims.head_dim` is the number of rotated dimensions."""

    kind = "scaling"

    gain: float = 1.0
    """Factor of rotated queries and keys (attention temperature)."""

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        self.options = options
        self.width = dims.head_dim

    @abstractmethod
    def frequencies(self, base: float, device: torch.device) -> Tensor:
        """The frequencies: [P] in float64."""
