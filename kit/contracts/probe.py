"""The contract of a probe: measures and drawings of attention, by head, by pair of heads or by sequence.

Shapes: S sequences, H heads, N measures, A heads of all layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from kit.plugin.component import BuildContext, Component, Options

if TYPE_CHECKING:
    from kit.inspection.attention_record import AttentionMap, AttentionRecord
    from kit.inspection.example_reader import ExampleIds
    from kit.inspection.inspector import Inspector

AttentionKind = Literal["encoder", "decoder", "cross"]
"""Self-attention of the encoder, self-attention of the decoder, or cross-attention."""
ALL_ATTENTION: frozenset[AttentionKind] = frozenset({"encoder", "decoder", "cross"})
SELF_ATTENTION: frozenset[AttentionKind] = frozenset({"encoder", "decoder"})


def attention_kind(build_context: BuildContext) -> AttentionKind:
    """The kind of an attention module, by its stack and role."""
    if build_context.role == "cross_attention":
        return "cross"
    return "encoder" if build_context.stack == "encoder" else "decoder"


@dataclass(frozen=True)
class Role:
    """What a head seems to do, in plain words, and how clearly."""

    strength: float
    """From 0 to 1; of several roles the strongest is reported."""
    words: str
    """What the head does: `looks at the token before`."""


class Probe(Component, ABC):
    """Measures or draws attention; built with its options alone."""

    kind = "probe"

    costly: ClassVar[bool] = False
    """Whether it runs many more forward or backward passes; such a probe is used where it is asked for."""

    def __init__(self, options: Options) -> None:
        self.options = options


class HeadProbe(Probe):
    """Measures each head.

    What is collected for each sequence and what is computed from many are apart, so that the kit can bootstrap an
    interval over sequences and compare with uniform attention and with an untrained model.
    """

    kinds: ClassVar[frozenset[AttentionKind]] = ALL_ATTENTION
    """The kinds of attention it applies to."""
    headline: ClassVar[tuple[str, ...]] = ()
    """The measures that a short table shows; a report holds all."""
    orders: ClassVar[Mapping[str, str]] = {}
    """Orders for head pruning, lowest value first: the word for `kit prune --by`, and the measure."""
    has_uniform_baseline: ClassVar[bool] = True
    """Whether uniform attention has a value; it has none for a measure that needs a model's gradient."""

    @property
    @abstractmethod
    def quantities(self) -> Mapping[str, str]:
        """Its measures, in order: a name of one or a few words, and a sentence that defines the measure."""

    @abstractmethod
    def gather(self, inspector: Inspector, rows: Sequence[ExampleIds]) -> Iterator[Mapping[str, Tensor]]:
        """What is collected for each sequence, [H, ...] by module path. A sequence without a value is left out."""

    def align(self, kept: Sequence[Tensor]) -> Tensor:
        """What was collected at one module, as one tensor [S, H, ...]; sequences that do not fit are left out."""
        return torch.stack(list(kept))

    def aggregate(self, kept_SH: Tensor) -> Tensor:
        """The measures, [H, N]: by default the mean over sequences, ignoring NaN."""
        return kept_SH.nanmean(0)

    def role(self, values: Mapping[str, float], kind: AttentionKind) -> Role | None:
        """The role of a head by its measures; None where they show none."""
        return None


class RecordProbe(HeadProbe):
    """Measures attention records alone, so that all such probes share one forward pass."""

    @abstractmethod
    def measure(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """What is collected from one attention map: [H, N], or what `conclude` expects; None to leave it out."""

    def measure_record(self, record: AttentionRecord) -> dict[str, Tensor]:
        """What is collected from all maps of a record that the probe applies to."""
        looked = {found.site: self.measure(found, record) for found in record.maps if found.kind in self.kinds}
        return {site: kept for site, kept in looked.items() if kept is not None}

    def gather(self, inspector: Inspector, rows: Sequence[ExampleIds]) -> Iterator[Mapping[str, Tensor]]:
        """What is collected from one record after another."""
        for record in inspector.run_batches(rows):
            yield self.measure_record(record)


class PairProbe(Probe):
    """Compares heads pairwise, all of one kind of attention across layers."""

    @abstractmethod
    def compare(self, record: AttentionRecord) -> Mapping[AttentionKind, Tensor]:
        """[A, A]: the distances of all heads of a kind on one sequence, layer by layer."""

    def distance(self, mean_AA: Tensor) -> Tensor:
        """The distance from the mean over sequences; by default the mean itself."""
        return mean_AA

    @abstractmethod
    def clusters(self, distance_AA: Tensor) -> list[int]:
        """The cluster of each head, by the distances over all sequences."""


@dataclass(frozen=True)
class Drawing:
    """A matrix over the tokens of one sequence, drawn as a heat map."""

    name: str
    """What is drawn, in a few words."""
    rows: tuple[str, ...]
    """The tokens of the rows, from the top."""
    columns: tuple[str, ...]
    """The tokens of the columns."""
    values: Tensor
    """[rows, columns]"""
    note: str = ""
    """A caveat for its interpretation."""


class SequenceProbe(Probe):
    """Draws one sequence."""

    @abstractmethod
    def draw(self, record: AttentionRecord, inspector: Inspector) -> list[Drawing]:
        """Its drawings; none for a model that it does not apply to."""
