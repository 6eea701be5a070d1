"""Head report: all measures of all heads with bootstrap intervals, under uniform attention, and untrained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kit import (
    AttentionKind,
    AttentionRecord,
    ExampleIds,
    ExampleLike,
    HeadId,
    HeadProbe,
    Inspector,
    PairProbe,
    Probe,
    RecordProbe,
    Role,
)

Collected = Mapping[str, list[Tensor]]
"""The tensors that a probe collected, one for each sequence, by module path."""


@dataclass(frozen=True)
class Estimate:
    """One measure of one head; None where it is undefined."""

    value: float | None
    low: float | None = None
    """The lower bound of the bootstrap interval."""
    high: float | None = None
    """The upper bound."""
    uniform: float | None = None
    """The value under uniform attention."""
    untrained: float | None = None
    """The value in an untrained model of the same recipe."""


@dataclass(frozen=True)
class HeadCard:
    """The measures and the role of one head."""

    site: str
    kind: AttentionKind
    layer: int
    head: int
    estimates: Mapping[str, Estimate]
    """The estimate of each measure."""
    role: str
    """The role that the measures suggest, in plain words."""

    @property
    def name(self) -> str:
        """A short name: `decoder.0.cross_attention:3`."""
        return f"{self.site}:{self.head}"


@dataclass(frozen=True)
class HeadDistances:
    """The pairwise distances of all heads of one kind of attention."""

    probe: str
    """The name of the measure."""
    kind: AttentionKind
    heads: tuple[HeadId, ...]
    distance: Tensor
    """[heads, heads], the mean over sequences."""
    clusters: tuple[int, ...]
    """The cluster of each head."""


@dataclass(frozen=True)
class Report:
    """The measures of all heads of a model."""

    heads: tuple[HeadCard, ...]
    distances: tuple[HeadDistances, ...]
    sequences: int
    """The number of sequences."""
    meanings: Mapping[str, str]
    """The definition of each measure, in a sentence."""

    def plain(self) -> dict[str, Any]:
        """Returns the report as JSON data."""
        return {
            "texts": self.sequences,
            "meanings": dict(self.meanings),
            "heads": [
                {
                    "site": card.site,
                    "kind": card.kind,
                    "layer": card.layer,
                    "head": card.head,
                    "role": card.role,
                    "numbers": {name: vars(estimate) for name, estimate in card.estimates.items()},
                }
                for card in self.heads
            ],
            "distances": [
                {
                    "probe": found.probe,
                    "kind": found.kind,
                    "heads": [f"{site}:{head}" for site, head in found.heads],
                    "distance": found.distance.tolist(),
                    "clusters": list(found.clusters),
                }
                for found in self.distances
            ],
        }


@dataclass(frozen=True)
class Controls:
    """Options of the intervals and controls of a report."""

    resamples: int = 200
    """Bootstrap resamples of the sequences; 0 for no intervals."""
    confidence: float = 0.95
    """The confidence level of the intervals."""
    untrained: int | None = 0
    """The seed of the untrained model of the same recipe; None for no such control."""
    seed: int = 0
    """The seed of the bootstrap."""


def measure_heads(
    inspector: Inspector, probes: Sequence[Probe], examples: Iterable[ExampleLike], controls: Controls | None = None
) -> Report:
    """Measures all heads of a model by probes, on examples."""
    controls = controls or Controls()
    rows, _ = inspector.with_generated_targets([inspector.reader.encode(example) for example in examples])
    head_probes = [each for each in probes if isinstance(each, HeadProbe)]
    pair_probes = [each for each in probes if isinstance(each, PairProbe)]
    collected, distances, shape = _collect(inspector, head_probes, pair_probes, rows)
    with_baseline = [each for each in head_probes if each.has_uniform_baseline]
    uniform, _, _ = _collect(inspector.uniform_attention(), with_baseline, [], rows)
    untrained: dict[HeadProbe, Collected] = {}
    if controls.untrained is not None and inspector.build_untrained is not None:
        untrained, _, _ = _collect(inspector.untrained_copy(controls.untrained), head_probes, [], rows)
    estimates: dict[HeadId, dict[str, Estimate]] = {key: {} for key in shape}
    roles: dict[HeadId, list[Role]] = {key: [] for key in shape}
    for each in head_probes:
        for site in collected[each]:
            found = _estimates(each, collected[each], uniform.get(each, {}), untrained.get(each, {}), site, controls)
            for head, named in enumerate(found):
                estimates[site, head] |= named
                role = each.role({name: _or_nan(one.value) for name, one in named.items()}, shape[site, head][0])
                roles[site, head] += [] if role is None else [role]
    cards = [
        HeadCard(site, *shape[site, head], head, estimates[site, head], _strongest(roles[site, head]))
        for site, head in shape
    ]
    meanings = {name for each in head_probes for name in each.quantities.items()}
    return Report(tuple(cards), tuple(distances), len(rows), dict(sorted(meanings)))


def _collect(
    inspector: Inspector, probes: Sequence[HeadProbe], pairs: Sequence[PairProbe], rows: Sequence[ExampleIds]
) -> tuple[dict[HeadProbe, Collected], list[HeadDistances], dict[HeadId, tuple[AttentionKind, int]]]:
    """Runs one pass over the sequences for all probes of records, and one for each other probe."""
    collected: dict[HeadProbe, dict[str, list[Tensor]]] = {each: {} for each in probes}
    compared: dict[PairProbe, dict[AttentionKind, list[Tensor]]] = {each: {} for each in pairs}
    shape: dict[HeadId, tuple[AttentionKind, int]] = {}
    names: dict[AttentionKind, list[HeadId]] = {}
    for record in inspector.run_batches(rows):
        if not shape:
            shape = {
                (found.site, head): (found.kind, found.layer) for found in record.maps for head in range(found.heads)
            }
            names = _heads_by_kind(record)
        for each in probes:
            if isinstance(each, RecordProbe):
                _append(collected[each], each.measure_record(record))
        for pair in pairs:
            for kind, distance in pair.compare(record).items():
                compared[pair].setdefault(kind, []).append(distance)
    for each in probes:
        if not isinstance(each, RecordProbe):
            for found in each.gather(inspector, rows):
                _append(collected[each], found)
    distances = []
    for pair, by_kind in compared.items():
        for kind, measured in by_kind.items():
            mean = pair.distance(torch.stack(measured).nanmean(0))
            distances.append(HeadDistances(pair.name(), kind, tuple(names[kind]), mean, tuple(pair.clusters(mean))))
    return dict(collected), distances, shape


def _append(collected: dict[str, list[Tensor]], found: Mapping[str, Tensor]) -> None:
    for site, tensor in found.items():
        collected.setdefault(site, []).append(tensor)


def _heads_by_kind(record: AttentionRecord) -> dict[AttentionKind, list[HeadId]]:
    names: dict[AttentionKind, list[HeadId]] = {}
    for found in record.maps:
        names.setdefault(found.kind, []).extend((found.site, head) for head in range(found.heads))
    return names


def _estimates(
    each: HeadProbe, collected: Collected, uniform: Collected, untrained: Collected, site: str, controls: Controls
) -> list[dict[str, Estimate]]:
    """Computes the estimates of each head of a module, by name."""
    aligned = each.align(collected[site])
    values_HN = each.aggregate(aligned)
    undefined_HN = torch.full_like(values_HN, torch.nan)
    low_HN, high_HN = _interval(each, aligned, controls)
    uniform_HN = each.aggregate(each.align(uniform[site])) if site in uniform else undefined_HN
    untrained_HN = each.aggregate(each.align(untrained[site])) if site in untrained else undefined_HN
    stacked_HN5 = torch.stack([values_HN, low_HN, high_HN, uniform_HN, untrained_HN], -1).tolist()
    return [
        {name: Estimate(*map(_or_none, values)) for name, values in zip(each.quantities, head, strict=True)}
        for head in stacked_HN5
    ]


def _interval(each: HeadProbe, aligned_SH: Tensor, controls: Controls) -> tuple[Tensor, Tensor]:
    """Computes percentile bootstrap intervals over sequences (Efron 1979)."""
    values_HN = each.aggregate(aligned_SH)
    if controls.resamples < 1 or len(aligned_SH) < 2:
        return torch.full_like(values_HN, torch.nan), torch.full_like(values_HN, torch.nan)
    generator = torch.Generator().manual_seed(controls.seed)
    count = len(aligned_SH)
    draws = [
        each.aggregate(aligned_SH[torch.randint(count, (count,), generator=generator)])
        for _ in range(controls.resamples)
    ]
    edge = (1 - controls.confidence) / 2
    bounds = torch.stack(draws).nanquantile(torch.tensor([edge, 1 - edge], dtype=values_HN.dtype), 0)
    return bounds[0], bounds[1]


def _or_none(value: float) -> float | None:
    return None if value != value else value


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _strongest(roles: Sequence[Role]) -> str:
    return max(roles, key=lambda role: role.strength).words if roles else "no clear role"
