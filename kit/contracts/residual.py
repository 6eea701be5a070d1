"""The contract of a residual: where the norm sits and how the skip joins, for all sublayers of one layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

from torch import Tensor

from kit.component import Dims, Options, Site
from kit.contracts.norm import Norm
from kit.contracts.part import Part
from kit.dropout import Dropout

Sublayer: TypeAlias = Callable[[Tensor], Tensor]


class Residual(Part):
    """Joins the sublayers of one layer into a stream."""

    kind = "residual"

    final_norm: ClassVar[bool] = False
    """Whether a stack of such layers ends in a norm of its own."""
    uses_norm: ClassVar[bool] = True
    """Whether it builds norms, so that a recipe has to name one."""
    starts_as_identity: ClassVar[bool] = False
    """Whether a layer gives back what it is given until it is trained."""

    def __init__(self, options: Options, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.dropout = Dropout(dims.dropout)

    @abstractmethod
    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: the stream; sublayers: what this layer does, in order, named in `site.sublayers`. Returns the stream."""

    def enter(self, x: Tensor) -> Tensor:
        """Makes the stream from token vectors, before the first layer."""
        return x

    def leave(self, stream: Tensor) -> Tensor:
        """Makes token vectors from the stream, after the last layer."""
        return stream

    def initialise(self, sublayers: Mapping[str, Part]) -> None:
        """Change how the sublayers of this layer begin, once, after they are built."""

    def new_norm(self) -> Norm:
        """A norm of the kind that the stack chose."""
        norm: Norm = self.site.build(self.site.inherited["norm"], self.dims)
        return norm
