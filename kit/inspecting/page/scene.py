"""What a page shows: one text through one model, or through two, with what was measured and drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

from kit.contracts.probe import Drawing
from kit.inspecting.record import AttentionRecord
from kit.inspecting.report import Report


@dataclass(frozen=True)
class Side:
    """One model: what its attention did with the text, and what is known of its heads."""

    name: str
    """What the model is called: the run."""
    record: AttentionRecord
    report: Report | None = None
    """What was measured; None where nothing was."""
    drawings: tuple[Drawing, ...] = ()
    """Pictures of the text that are not of one head: rollout, alignment."""


@dataclass(frozen=True)
class Scene:
    """Everything on a page."""

    text: str
    """What was read, as it was typed."""
    sides: tuple[Side, ...]
    """One model, or two that are compared: what was before, and what is looked at."""
    wholes: tuple[tuple[str, ...], ...] = ()
    """Measures that are parts of a whole for every head: their names, together."""
    notes: tuple[str, ...] = field(default=())
    """What a reader has to know."""
