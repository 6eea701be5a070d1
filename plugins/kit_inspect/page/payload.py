"""Data of an attention page: JSON and compressed weights, with as many heads as its size allows."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kit import AttentionMap, Drawing, HeadId, TokenRow, __version__
from kit_inspect.head_report import HeadCard, HeadDistances
from kit_inspect.page.packing import STEPS, Packer, quantized
from kit_inspect.page.view import ModelView, PageView

HEAD_OVERHEAD = 220
"""Characters of a head besides its weights and sums, such as its path."""


@dataclass(frozen=True)
class Payload:
    """The data of a page."""

    facts: str
    """All data but the weights, as JSON without `<`, so that no token ends the script element."""
    packed: str
    """The weights, compressed."""
    left_out: int = 0
    """The number of heads without their weights."""

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.facts) + len(self.packed)


def payload(view: PageView, max_size: int) -> Payload:
    """Builds the data of a page in at most so many characters, at the finest quantization that fits."""
    heads = [(found.site, head) for model in view.models for found in model.record.maps for head in range(found.heads)]
    every = list(dict.fromkeys(heads))
    for steps in STEPS:
        found = _payload(view, every, steps, ())
        if found.size <= max_size:
            return found
    kept = _farthest_from_uniform(view, max_size - _payload(view, (), STEPS[-1], ()).size)
    note = (
        f"There is room for {len(kept)} of {len(every)} heads in a page of this size: those whose attention is "
        "furthest from uniform are drawn. Measures are of all heads. A larger page holds more: kit inspect --megabytes."
    )
    found = _payload(view, kept, STEPS[-1], (note,))
    return Payload(found.facts, found.packed, len(every) - len(kept))


def _payload(view: PageView, heads: Collection[HeadId], steps: int, more: Sequence[str]) -> Payload:
    packer = Packer(steps)
    record = view.models[-1].record
    reports = [model.report for model in view.models if model.report is not None]
    facts = {
        "version": __version__,
        "text": view.text,
        "written": record.generated,
        "steps": steps,
        "notes": [*view.notes, *more],
        "rows": {"source": _row(record.source), "target": _row(record.target)},
        "meanings": {name: text for report in reports for name, text in report.meanings.items()},
        "wholes": [list(names) for names in view.normalized_measures],
        "sides": [_model(model, packer, set(heads)) for model in view.models],
    }
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False)
    return Payload(text.replace("<", "\\u003c"), packer.packed())


def _model(model: ModelView, packer: Packer, heads: Collection[HeadId]) -> dict[str, Any]:
    report = model.report
    return {
        "name": model.name,
        "maps": [_map(found, packer, heads) for found in model.record.maps],
        "unseen": dict(model.record.unseen),
        "drawings": [_drawing(found, packer) for found in model.drawings],
        "texts": 0 if report is None else report.sequences,
        "cards": {} if report is None else {card.name: _card(card) for card in report.heads},
        "likeness": [] if report is None else [_distances(found) for found in report.distances],
    }


def _map(found: AttentionMap, packer: Packer, heads: Collection[HeadId]) -> dict[str, Any]:
    grids = [packer.grid(each) if (found.site, head) in heads else None for head, each in enumerate(found.weights)]
    mask = packer.mask(found.attention_mask)
    return {"site": found.site, "kind": found.kind, "layer": found.layer, "mask": mask, "heads": grids}


def _drawing(found: Drawing, packer: Packer) -> dict[str, Any]:
    words = {"name": found.name, "note": found.note, "rows": list(found.rows), "columns": list(found.columns)}
    return {**words, "grid": packer.grid(found.values)}


def _card(card: HeadCard) -> dict[str, Any]:
    numbers = {
        name: [_rounded(number) for number in (it.value, it.low, it.high, it.uniform, it.untrained)]
        for name, it in card.estimates.items()
    }
    return {"role": card.role, "numbers": numbers}


def _distances(found: HeadDistances) -> dict[str, Any]:
    names = [f"{site}:{head}" for site, head in found.heads]
    distance = [[_rounded(number) for number in row] for row in found.distance.tolist()]
    return {"probe": found.probe, "kind": found.kind, "heads": names, "distance": distance, "groups": found.clusters}


def _row(row: TokenRow | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {"tokens": row.tokens, "special": row.special, "following": row.next_tokens}


def _rounded(number: float | None) -> float | None:
    return None if number is None or number != number else float(f"{number:.5g}")


def _farthest_from_uniform(view: PageView, max_size: int) -> list[HeadId]:
    """Selects the heads farthest from uniform attention, as many as fit into the page and at least one."""
    distance: dict[HeadId, float] = {}
    size: dict[HeadId, int] = {}
    for model in view.models:
        for found in model.record.maps:
            total_variation = (found.probabilities - found.uniform().weights).abs().sum(-1).mean(-1) / 2
            for head, values in enumerate(found.weights):
                data, _, _ = quantized(values.double().nan_to_num(0.0), STEPS[-1])
                sums = 2 * sum(values.shape)
                key = found.site, head
                size[key] = size.get(key, 0) + (len(zlib.compress(data, 6)) + sums) * 4 // 3 + HEAD_OVERHEAD
                distance[key] = distance.get(key, 0.0) + float(torch.nan_to_num(total_variation[head]))
    order = sorted(distance, key=distance.__getitem__, reverse=True)
    kept = order[:1]
    remaining = max_size - size[order[0]]
    for key in order[1:]:
        if size[key] <= remaining:
            kept.append(key)
            remaining -= size[key]
    return kept
