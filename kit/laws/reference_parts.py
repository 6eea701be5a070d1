"""Reference parts that surround the part under test, so that laws need no other plugin, and their builder.

Shapes: B rows, H heads, L tokens, Q queries, K keys, D width, E head_dim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from kit.contracts.attention import Capabilities
from kit.contracts.mask import Mask
from kit.contracts.multi_head import MultiHeadAttention, MultiHeadOptions
from kit.contracts.position import Location, Position
from kit.contracts.sublayer import MLP, MLPOptions, Norm, Residual, Sublayer
from kit.laws.option_grid import option_grid
from kit.model.builder import ModelBuilder
from kit.plugin.component import BuildContext, Component, Dims, Options
from kit.plugin.registry import Registry
from kit.recipe.slot_schema import binder_of
from kit.sequence.attention_context import AttentionContext, MaskFeatures


class ReferenceAttentionOptions(MultiHeadOptions):
    """Options of scaled dot-product attention with two heads."""

    use: Literal["reference"] = "reference"
    heads: PositiveInt = 2


class ReferenceAttention(MultiHeadAttention):
    """Multi-head scaled dot-product attention of the base class."""

    options_type = ReferenceAttentionOptions
    capabilities = Capabilities(supports_shared_beams=True)


class ReferenceFeedforwardOptions(MLPOptions):
    """Options of an MLP."""

    use: Literal["reference"] = "reference"
    factor: PositiveFloat = 2.0


class ReferenceFeedforward(MLP):
    """An MLP with tanh, which is smooth, so that gradients can be compared with finite differences."""

    options_type = ReferenceFeedforwardOptions

    def activate(self, hidden: Tensor) -> Tensor:
        """Applies tanh."""
        return torch.tanh(hidden)


class ReferenceNormOptions(Options):
    """Options of RMSNorm."""

    use: Literal["reference"] = "reference"


class ReferenceNorm(Norm):
    """RMSNorm without parameters."""

    options_type = ReferenceNormOptions

    def forward(self, x: Tensor) -> Tensor:
        """Normalises vectors [..., D]."""
        return F.rms_norm(x, x.shape[-1:], eps=1e-6)


class ReferenceResidualOptions(Options):
    """Options of a pre-norm residual."""

    use: Literal["reference"] = "reference"


class ReferenceResidual(Residual):
    """A pre-norm residual: x + sublayer(norm(x))."""

    options_type = ReferenceResidualOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.norm = self.new_norm()

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """Applies the sublayers to vectors [..., D]."""
        for sublayer in sublayers:
            x = x + self.dropout(sublayer(self.norm(x)))
        return x


class ReferenceMaskOptions(Options):
    """Options of a causal mask."""

    use: Literal["reference"] = "reference"


class ReferenceMask(Mask):
    """A causal mask."""

    options_type = ReferenceMaskOptions
    shape = "causal"
    hides_future = True

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """Allows keys up to the query."""
        return k <= q


class GapsMask(Mask):
    """A mask with gaps, by the token feature `group` of both tokens; every fifth query is fully masked."""

    needs = ("group",)

    def __init__(self) -> None:
        """Takes no options."""

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """Allows most pairs of groups, for four of five queries."""
        return ((features.query["group"] + 2 * features.key["group"]) % 4 != 1) & (q % 5 != 3)


class ReferencePositionOptions(Options):
    """Options of the reference position."""

    use: Literal["reference"] = "reference"


class ReferencePosition(Position):
    """A positional encoding that is applied exactly at the given locations, with an effect at each."""

    options_type = ReferencePositionOptions

    def __init__(self, locations: frozenset[Location] = frozenset(), heads: int = 1) -> None:
        torch.nn.Module.__init__(self)
        self.locations = locations
        self.heads = heads

    def rotate(self, x_BHLE: Tensor, at_BL: Tensor, side: Literal["query", "key"]) -> Tensor:
        """Rotates pairs of dimensions of [B, H, L, E], half a vector apart; an odd last dimension is not rotated."""
        half = x_BHLE.shape[-1] // 2
        angle_BL = at_BL[:, None, :, None].to(x_BHLE.dtype) * 0.3
        a, b, rest = x_BHLE[..., :half], x_BHLE[..., half : 2 * half], x_BHLE[..., 2 * half :]
        return torch.cat([a * angle_BL.cos() - b * angle_BL.sin(), b * angle_BL.cos() + a * angle_BL.sin(), rest], -1)

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor | None:
        """Returns a bias [B, H, Q, K] that falls with distance, faster in later heads."""
        distance_B1QK = (q_at_BQ[:, None, :, None] - k_at_BK[:, None, None, :]).abs().double()
        slopes_H = torch.arange(1, self.heads + 1, device=q_at_BQ.device).double() / self.heads
        return -distance_B1QK.sqrt() * slopes_H[:, None, None]

    def content_bias(self, q_BHQE: Tensor, k_BHKE: Tensor, context: AttentionContext) -> Tensor | None:
        """Returns a bias [B, H, Q, K] by the first dimension of the query and the parity of the distance."""
        odd_B1QK = (context.queries.positions[:, None, :, None] - context.keys.positions[:, None, None, :]) % 2
        return q_BHQE[..., :1] * odd_B1QK.to(q_BHQE.dtype)


REFERENCE_PARTS: tuple[type[Component], ...] = (
    ReferenceAttention,
    ReferenceFeedforward,
    ReferenceNorm,
    ReferenceResidual,
    ReferenceMask,
)
"""The parts that fill slots of the part under test."""


class ReferenceBuilder(ModelBuilder):
    """A model builder that also builds the reference parts and a part that belongs to no plugin."""

    def __init__(self, component: type[Component], registry: Registry) -> None:
        super().__init__(registry)
        self.component = component

    def component_of(self, options: Options) -> type[Component]:
        """Returns the class of options: the part under test, a reference part, or a part of the registry."""
        for known in (self.component, *REFERENCE_PARTS):
            if isinstance(options, known.options_type):
                return known
        return super().component_of(options)

    def reference(self, kind: str) -> Options | None:
        """Returns options of the reference part of a kind, or of the registry's default; None without both."""
        for known in REFERENCE_PARTS:
            if known.kind == kind:
                return known.options_type.model_validate({"use": known.name()})
        default = self.registry.default(kind) if kind in self.registry.kinds() else None
        if default is None:
            return None
        found = option_grid(default.component.options_type, self.reference, lambda options: True, shrink=False)
        return found[0] if found else None

    def read(self, written: Mapping[str, Any]) -> Options:
        """Parses options of the part under test, written as in a recipe."""
        bound = binder_of(self.registry).bound(self.component.options_type)
        return bound.model_validate({"use": self.component.name(), **written})
