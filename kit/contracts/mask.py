"""Contract of attention masks: which keys a query may attend to; masks compose with `&`, `|` and `~`.

Shapes: B rows, Q queries, K keys.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from kit.plugin.component import BuildContext, Component, Dims, Options
from kit.sequence.attention_context import MaskFeatures

if TYPE_CHECKING:
    from kit.sequence.batch_layout import BatchLayout

Shape = Literal["causal", "pairs"]


class Mask(Component):
    """Allows or forbids each (query, key) pair. Padding is no part of it: padding keys are always masked."""

    kind = "mask"

    shape: Shape = "pairs"
    """`causal` if the mask is exactly the causal mask, which every kernel supports; else `pairs`."""
    hides_future: bool = False
    """Whether no query may attend to a later key."""
    needs: tuple[str, ...] = ()
    """Names of token features that a batch must provide."""

    def __init__(
        self, options: Options | None = None, dims: Dims | None = None, build_context: BuildContext | None = None
    ) -> None:
        self.options = self.options_type.model_validate({"use": self.name()}) if options is None else options

    @property
    def is_autoregressive(self) -> bool:
        """Whether sequences can be generated from left to right: visible later tokens belong to a prompt."""
        return self.hides_future

    @abstractmethod
    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """q: [B or 1, Q, 1] and k: [B or 1, 1, K], token indices; returns true where q may attend to k."""

    def check_step(self, new: BatchLayout) -> None:
        """Called before a decoding step reads new tokens; raises KitError if earlier tokens may attend to them."""

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either(self, other)

    def __invert__(self) -> Mask:
        return Inverse(self)


class Composed(Mask):
    """A mask composed of masks; it has no options."""

    def __init__(self, *parts: Mask) -> None:
        self.parts = parts
        self.needs = tuple(dict.fromkeys(name for part in parts for name in part.needs))

    def check_step(self, new: BatchLayout) -> None:
        """Asks each mask."""
        for part in self.parts:
            part.check_step(new)


class Both(Composed):
    """Allows pairs that every mask allows."""

    def __init__(self, *parts: Mask) -> None:
        super().__init__(*parts)
        self.hides_future = any(part.hides_future for part in parts)
        self.shape = "causal" if all(part.shape == "causal" for part in parts) else "pairs"

    @property
    def is_autoregressive(self) -> bool:
        """One autoregressive mask is enough."""
        return any(part.is_autoregressive for part in self.parts)

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """Conjunction of the masks."""
        return reduce(and_, (part.allows(q, k, features) for part in self.parts))


class Either(Composed):
    """Allows pairs that at least one mask allows."""

    def __init__(self, *parts: Mask) -> None:
        super().__init__(*parts)
        self.hides_future = all(part.hides_future for part in parts)

    @property
    def is_autoregressive(self) -> bool:
        """Every mask must be autoregressive."""
        return all(part.is_autoregressive for part in self.parts)

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """Disjunction of the masks."""
        return reduce(or_, (part.allows(q, k, features) for part in self.parts))


class Inverse(Composed):
    """Allows pairs that a mask forbids."""

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """Negation of the mask."""
        return ~self.parts[0].allows(q, k, features)


def all_of(masks: Sequence[Mask]) -> Mask | None:
    """Combines masks, each of which must allow a pair; returns None for an empty list."""
    return None if not masks else masks[0] if len(masks) == 1 else Both(*masks)
