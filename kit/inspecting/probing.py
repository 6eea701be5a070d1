"""Puts probes to a model: every number with an interval, its value for even attention, and for an untrained model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kit.contracts.probe import HeadProbe, PairProbe, Probe, RecordProbe, Role
from kit.inspecting.inspector import Inspector
from kit.inspecting.reading import Given, Ids
from kit.inspecting.record import AttentionRecord, Kind
from kit.inspecting.report import Estimate, HeadCard, HeadDistances, Report

Kept = Mapping[str, list[Tensor]]
"""What a probe kept of each text, by site."""


@dataclass(frozen=True)
class Controls:
    """What numbers are compared with, and how sure they are to be made."""

    resamples: int = 200
    """How many times texts are drawn anew to see how a number would vary; 0 for no intervals."""
    share: float = 0.95
    """How many of those the interval holds."""
    untrained: int | None = 0
    """The seed of a model of the same recipe that has not been trained; None for no such comparison."""
    seed: int = 0
    """What texts are drawn with."""


def probe(
    inspector: Inspector, probes: Sequence[Probe], texts: Iterable[Given], controls: Controls | None = None
) -> Report:
    """Everything that these probes say about the heads of a model on these texts."""
    controls = controls or Controls()
    rows, _ = inspector.filled([inspector.reader.encode(given) for given in texts])
    by_head = [each for each in probes if isinstance(each, HeadProbe)]
    pairs = [each for each in probes if isinstance(each, PairProbe)]
    kept, apart, shape = _pass(inspector, by_head, pairs, rows)
    even, _, _ = _pass(inspector.even(), [each for each in by_head if each.has_even], [], rows)
    fresh: dict[HeadProbe, Kept] = {}
    if controls.untrained is not None and inspector.untrained is not None:
        fresh, _, _ = _pass(inspector.twin(controls.untrained), by_head, [], rows)
    estimates: dict[tuple[str, int], dict[str, Estimate]] = {key: {} for key in shape}
    roles: dict[tuple[str, int], list[Role]] = {key: [] for key in shape}
    for each in by_head:
        for site in kept[each]:
            found = _estimated(each, kept[each], even.get(each, {}), fresh.get(each, {}), site, controls)
            for head, named in enumerate(found):
                estimates[site, head] |= named
                role = each.role({name: _or_nan(one.value) for name, one in named.items()}, shape[site, head][0])
                roles[site, head] += [] if role is None else [role]
    cards = [
        HeadCard(site, *shape[site, head], head, estimates[site, head], _told(roles[site, head]))
        for site, head in shape
    ]
    means = {name for each in by_head for name in each.quantities.items()}
    return Report(tuple(cards), tuple(apart), len(rows), dict(sorted(means)))


def _pass(
    inspector: Inspector, probes: Sequence[HeadProbe], pairs: Sequence[PairProbe], rows: Sequence[Ids]
) -> tuple[dict[HeadProbe, Kept], list[HeadDistances], dict[tuple[str, int], tuple[Kind, int]]]:
    """One pass for all that need records only, and one for each other probe."""
    kept: dict[HeadProbe, dict[str, list[Tensor]]] = {each: {} for each in probes}
    compared: dict[PairProbe, dict[Kind, list[Tensor]]] = {each: {} for each in pairs}
    shape: dict[tuple[str, int], tuple[Kind, int]] = {}
    names: dict[Kind, list[tuple[str, int]]] = {}
    for record in inspector.stream(rows):
        if not shape:
            shape = {
                (found.site, head): (found.kind, found.layer) for found in record.maps for head in range(found.heads)
            }
            names = _names(record)
        for each in probes:
            if isinstance(each, RecordProbe):
                _add(kept[each], each.of(record))
        for pair in pairs:
            for kind, distance in pair.compare(record).items():
                compared[pair].setdefault(kind, []).append(distance)
    for each in probes:
        if not isinstance(each, RecordProbe):
            for found in each.gather(inspector, rows):
                _add(kept[each], found)
    apart = []
    for pair, by_kind in compared.items():
        for kind, distances in by_kind.items():
            mean = pair.distance(torch.stack(distances).nanmean(0))
            apart.append(HeadDistances(pair.part_name(), kind, tuple(names[kind]), mean, tuple(pair.groups(mean))))
    return dict(kept), apart, shape


def _add(to: dict[str, list[Tensor]], found: Mapping[str, Tensor]) -> None:
    for site, tensor in found.items():
        to.setdefault(site, []).append(tensor)


def _names(record: AttentionRecord) -> dict[Kind, list[tuple[str, int]]]:
    names: dict[Kind, list[tuple[str, int]]] = {}
    for found in record.maps:
        names.setdefault(found.kind, []).extend((found.site, head) for head in range(found.heads))
    return names


def _estimated(
    each: HeadProbe, kept: Kept, even: Kept, fresh: Kept, site: str, controls: Controls
) -> list[dict[str, Estimate]]:
    """For each head its numbers, by name."""
    aligned = each.align(kept[site])
    values_HN = each.conclude(aligned)
    low_HN, high_HN = _interval(each, aligned, controls)
    even_HN = each.conclude(each.align(even[site])) if site in even else torch.full_like(values_HN, torch.nan)
    fresh_HN = each.conclude(each.align(fresh[site])) if site in fresh else torch.full_like(values_HN, torch.nan)
    together = torch.stack([values_HN, low_HN, high_HN, even_HN, fresh_HN], -1).tolist()
    return [
        {name: Estimate(*map(_number, five)) for name, five in zip(each.quantities, head, strict=True)}
        for head in together
    ]


def _interval(each: HeadProbe, aligned_SH: Tensor, controls: Controls) -> tuple[Tensor, Tensor]:
    """Where the numbers lie when texts are drawn again, with replacement (Efron 1979)."""
    values_HN = each.conclude(aligned_SH)
    if controls.resamples < 1 or len(aligned_SH) < 2:
        return torch.full_like(values_HN, torch.nan), torch.full_like(values_HN, torch.nan)
    generator = torch.Generator().manual_seed(controls.seed)
    count = len(aligned_SH)
    draws = [
        each.conclude(aligned_SH[torch.randint(count, (count,), generator=generator)])
        for _ in range(controls.resamples)
    ]
    edge = (1 - controls.share) / 2
    bounds = torch.stack(draws).nanquantile(torch.tensor([edge, 1 - edge], dtype=values_HN.dtype), 0)
    return bounds[0], bounds[1]


def _number(value: float) -> float | None:
    return None if value != value else value


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _told(roles: Sequence[Role]) -> str:
    return max(roles, key=lambda role: role.strength).words if roles else "no clear role"
