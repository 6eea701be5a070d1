"""The contract of a mask: which key a query may see; masks compose with `&`, `|` and `~`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from kit.component import Component, Dims, Options, Site

if TYPE_CHECKING:
    from kit.layout import Layout

Shape = Literal["causal", "pairs"]


@dataclass(frozen=True)
class Facts:
    """What a batch says of each token, such as its document; [B, Q, 1] for queries and [B, 1, K] for keys."""

    query: Mapping[str, Tensor] = field(default_factory=dict)
    key: Mapping[str, Tensor] = field(default_factory=dict)


class Mask(Component):
    """Says which pairs of query and key may meet. Padding is no part of it: unreal keys are always hidden."""

    kind = "mask"

    shape: Shape = "pairs"
    """`causal` where the mask is exactly «no later than myself», which every fast path knows; else `pairs`."""
    hides_future: bool = False
    """Whether no query ever sees a later key."""
    needs: tuple[str, ...] = ()
    """Facts that a batch must bring."""

    def __init__(self, options: Options | None = None, dims: Dims | None = None, site: Site | None = None) -> None:
        self.options = self.options_type.model_validate({"use": self.part_name()}) if options is None else options

    @property
    def writable(self) -> bool:
        """Whether a text can be written from left to right under it: what is seen ahead of its time was given."""
        return self.hides_future

    @abstractmethod
    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """q: [B or 1, Q, 1] and k: [B or 1, 1, K], each token's place in its text; returns true where k may be seen."""

    def check_step(self, new: Layout) -> None:
        """Asked before tokens are read after others; raises KitError where those before would have had to see them."""

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either(self, other)

    def __invert__(self) -> Mask:
        return Inverse(self)


class Composed(Mask):
    """A mask made of masks; it has no options of its own."""

    def __init__(self, *parts: Mask) -> None:
        self.parts = parts
        self.needs = tuple(dict.fromkeys(name for part in parts for name in part.needs))

    def check_step(self, new: Layout) -> None:
        """What each of them says."""
        for part in self.parts:
            part.check_step(new)


class Both(Composed):
    """Allowed by every one."""

    def __init__(self, *parts: Mask) -> None:
        super().__init__(*parts)
        self.hides_future = any(part.hides_future for part in parts)
        self.shape = "causal" if all(part.shape == "causal" for part in parts) else "pairs"

    @property
    def writable(self) -> bool:
        """One part that keeps what is not written yet out of sight is enough."""
        return any(part.writable for part in self.parts)

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """Every part allows it."""
        return reduce(and_, (part.allows(q, k, facts) for part in self.parts))


class Either(Composed):
    """Allowed by at least one."""

    def __init__(self, *parts: Mask) -> None:
        super().__init__(*parts)
        self.hides_future = all(part.hides_future for part in parts)

    @property
    def writable(self) -> bool:
        """Every part must keep what is not written yet out of sight."""
        return all(part.writable for part in self.parts)

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """Some part allows it."""
        return reduce(or_, (part.allows(q, k, facts) for part in self.parts))


class Inverse(Composed):
    """Allowed where the other is not."""

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """The part does not allow it."""
        return ~self.parts[0].allows(q, k, facts)


def all_of(masks: Sequence[Mask]) -> Mask | None:
    """One mask for a list of them, each of which must allow a pair; None for none."""
    return None if not masks else masks[0] if len(masks) == 1 else Both(*masks)
