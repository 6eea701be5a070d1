"""The contract of a probe: what is measured or drawn of attention, by head, by pair of heads or by text.

Shapes: S texts, H heads, N quantities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from kit.component import Component, Options

if TYPE_CHECKING:
    from kit.inspecting.inspector import Inspector
    from kit.inspecting.reading import Ids
    from kit.inspecting.record import AttentionMap, AttentionRecord, Kind

EVERYWHERE: frozenset[Kind] = frozenset({"encoder", "decoder", "cross"})
ITS_OWN_TEXT: frozenset[Kind] = frozenset({"encoder", "decoder"})


@dataclass(frozen=True)
class Role:
    """What a head seems to be there for, in plain words, and how sure that is."""

    strength: float
    """From 0 to 1; of several roles the strongest is told."""
    words: str
    """What the head does: `looks at the token before`."""


class Probe(Component, ABC):
    """Looks at attention; built with its options alone."""

    kind = "probe"

    costly: ClassVar[bool] = False
    """Whether it runs the model again, many times or backwards; such a probe is used where it is asked for."""

    def __init__(self, options: Options) -> None:
        self.options = options


class HeadProbe(Probe):
    """Gives numbers for each head.

    What is kept of each text and what follows from many texts are apart, so that the kit can tell how sure a number is
    (by drawing other texts) and compare it with a model whose attention is even, and with one that is not trained.
    """

    kinds: ClassVar[frozenset[Kind]] = EVERYWHERE
    """Which attentions it has something to say about."""
    headline: ClassVar[tuple[str, ...]] = ()
    """Those of its numbers that belong into a short table; all are in the report."""
    orders: ClassVar[Mapping[str, str]] = {}
    """Words by which heads can be taken out in the order of one of its numbers, the smallest first: the word for
    `kit prune --by`, and the number."""
    has_even: ClassVar[bool] = True
    """Whether there is a value for attention that prefers nothing; there is none for what needs a model's gradient."""

    @property
    @abstractmethod
    def quantities(self) -> Mapping[str, str]:
        """Its numbers, in order: a name of one or a few words, and a sentence that says what the number is."""

    @abstractmethod
    def gather(self, inspector: Inspector, rows: Sequence[Ids]) -> Iterator[Mapping[str, Tensor]]:
        """What is kept of each text, by site: [H, ...]. A text that says nothing is left out."""

    def align(self, kept: Sequence[Tensor]) -> Tensor:
        """What was kept of the texts of one site, as one tensor [S, H, ...]; texts that do not fit are left out."""
        return torch.stack(list(kept))

    def conclude(self, kept_SH: Tensor) -> Tensor:
        """The numbers, [H, N]: the mean over texts, without those that are not a number."""
        return kept_SH.nanmean(0)

    def role(self, values: Mapping[str, float], kind: Kind) -> Role | None:
        """What its numbers say a head is for; None where they say nothing."""
        return None


class RecordProbe(HeadProbe):
    """Needs no more than records, so that all such probes share one pass over the texts."""

    @abstractmethod
    def look(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """What is kept of one attention of one text: [H, N], or what `conclude` wants; None to leave it out."""

    def of(self, record: AttentionRecord) -> dict[str, Tensor]:
        """The same for all attentions of a record that it is for."""
        looked = {found.site: self.look(found, record) for found in record.maps if found.kind in self.kinds}
        return {site: kept for site, kept in looked.items() if kept is not None}

    def gather(self, inspector: Inspector, rows: Sequence[Ids]) -> Iterator[Mapping[str, Tensor]]:
        """One record after another."""
        for record in inspector.stream(rows):
            yield self.of(record)


class PairProbe(Probe):
    """Compares heads with each other, all of one kind of attention, whichever layer they are in."""

    @abstractmethod
    def compare(self, record: AttentionRecord) -> Mapping[Kind, Tensor]:
        """How far apart the heads are on one text: [A, A] for all A heads of a kind, layer by layer."""

    def distance(self, mean_AA: Tensor) -> Tensor:
        """What the mean over texts comes to; nothing else by default."""
        return mean_AA

    @abstractmethod
    def groups(self, distance_AA: Tensor) -> list[int]:
        """Which group each head is in, by the distances over all texts."""


@dataclass(frozen=True)
class Drawing:
    """A picture of one text: a number for each pair of tokens."""

    name: str
    """What is drawn, in a few words."""
    rows: tuple[str, ...]
    """The tokens beside the rows, from the top."""
    columns: tuple[str, ...]
    """The tokens above the columns."""
    values: Tensor
    """[rows, columns]"""
    note: str = ""
    """What one has to know to read it rightly."""


class TextProbe(Probe):
    """Draws one text."""

    @abstractmethod
    def draw(self, record: AttentionRecord, inspector: Inspector) -> list[Drawing]:
        """Its pictures; none where the model is not one it can draw."""
