"""What a page is given: its numbers as data, and which heads it has room for."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kit import __version__
from kit.contracts.probe import Drawing
from kit.inspecting.page.packing import STEPS, Packer, rounded
from kit.inspecting.page.scene import Scene, Side
from kit.inspecting.record import AttentionMap, TokenRow
from kit.inspecting.report import HeadCard, HeadDistances

Head = tuple[str, int]
"""A site, and the number of a head there."""
BESIDE = 220
"""Characters that a head takes beside its weights: where it is, and its sums."""


@dataclass(frozen=True)
class Contents:
    """The data of a page."""

    facts: str
    """Everything but the weights, in JSON that no token can break out of."""
    packed: str
    """The weights, compressed."""
    left_out: int = 0
    """How many heads there was no room for."""

    @property
    def size(self) -> int:
        """How many bytes all of it takes."""
        return len(self.facts) + len(self.packed)


def contents(scene: Scene, room: int) -> Contents:
    """The data of a page that is to take no more than so many characters, as fine as that allows."""
    heads = [(found.site, head) for side in scene.sides for found in side.record.maps for head in range(found.heads)]
    every = list(dict.fromkeys(heads))
    for steps in STEPS:
        found = _filled(scene, every, steps, ())
        if found.size <= room:
            return found
    kept = _chosen(scene, room - _filled(scene, (), STEPS[-1], ()).size)
    note = (
        f"There is room for {len(kept)} of {len(every)} heads in a page of this size: those whose attention is "
        "furthest from even are drawn. Measures are of all heads. A larger page holds more: kit inspect --megabytes."
    )
    found = _filled(scene, kept, STEPS[-1], (note,))
    return Contents(found.facts, found.packed, len(every) - len(kept))


def _filled(scene: Scene, heads: Collection[Head], steps: int, more: Sequence[str]) -> Contents:
    packer = Packer(steps)
    record = scene.sides[-1].record
    facts = {
        "version": __version__,
        "text": scene.text,
        "written": record.written,
        "steps": steps,
        "notes": [*scene.notes, *more],
        "rows": {"source": _row(record.source), "target": _row(record.target)},
        "meanings": {name: text for side in scene.sides if side.report for name, text in side.report.meanings.items()},
        "wholes": [list(names) for names in scene.wholes],
        "sides": [_side(side, packer, set(heads)) for side in scene.sides],
    }
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False)
    return Contents(text.replace("<", "\\u003c"), packer.packed())


def _side(side: Side, packer: Packer, heads: Collection[Head]) -> dict[str, Any]:
    report = side.report
    return {
        "name": side.name,
        "maps": [_map(found, packer, heads) for found in side.record.maps],
        "unseen": dict(side.record.unseen),
        "drawings": [_drawing(found, packer) for found in side.drawings],
        "texts": 0 if report is None else report.texts,
        "cards": {} if report is None else {card.name: _card(card) for card in report.heads},
        "likeness": [] if report is None else [_likeness(found) for found in report.distances],
    }


def _map(found: AttentionMap, packer: Packer, heads: Collection[Head]) -> dict[str, Any]:
    grids = [packer.grid(each) if (found.site, head) in heads else None for head, each in enumerate(found.weights)]
    mask = packer.mask(found.allowed)
    return {"site": found.site, "kind": found.kind, "layer": found.layer, "mask": mask, "heads": grids}


def _drawing(found: Drawing, packer: Packer) -> dict[str, Any]:
    words = {"name": found.name, "note": found.note, "rows": list(found.rows), "columns": list(found.columns)}
    return {**words, "grid": packer.grid(found.values)}


def _card(card: HeadCard) -> dict[str, Any]:
    numbers = {
        name: [_short(number) for number in (it.value, it.low, it.high, it.even, it.untrained)]
        for name, it in card.estimates.items()
    }
    return {"role": card.role, "numbers": numbers}


def _likeness(found: HeadDistances) -> dict[str, Any]:
    names = [f"{site}:{head}" for site, head in found.heads]
    distance = [[_short(number) for number in row] for row in found.distance.tolist()]
    return {"probe": found.probe, "kind": found.kind, "heads": names, "distance": distance, "groups": found.groups}


def _row(row: TokenRow | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {"tokens": row.tokens, "special": row.special, "following": row.following}


def _short(number: float | None) -> float | None:
    return None if number is None or number != number else float(f"{number:.5g}")


def _chosen(scene: Scene, room: int) -> list[Head]:
    """The heads that are furthest from even, as many as there is room for and one at least."""
    far: dict[Head, float] = {}
    size: dict[Head, int] = {}
    for side in scene.sides:
        for found in side.record.maps:
            gap = (found.shares - found.uniform().weights).abs().sum(-1).mean(-1) / 2
            for head, values in enumerate(found.weights):
                data, _, _ = rounded(values.double().nan_to_num(0.0), STEPS[-1])
                sums = 2 * sum(values.shape)
                key = found.site, head
                size[key] = size.get(key, 0) + (len(zlib.compress(data, 6)) + sums) * 4 // 3 + BESIDE
                far[key] = far.get(key, 0.0) + float(torch.nan_to_num(gap[head]))
    order = sorted(far, key=far.__getitem__, reverse=True)
    kept = order[:1]
    left = room - size[order[0]]
    for key in order[1:]:
        if size[key] <= left:
            kept.append(key)
            left -= size[key]
    return kept
