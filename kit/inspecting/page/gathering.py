"""Collects what a page shows: the record of one text, measures of the heads over many, and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from kit.contracts.data import Example
from kit.contracts.probe import HeadProbe, PairProbe, Probe, TextProbe
from kit.errors import KitError
from kit.inspecting.inspector import Inspector
from kit.inspecting.page.scene import Scene, Side
from kit.inspecting.probing import Controls, probe
from kit.inspecting.reading import Given, Ids, as_example
from kit.inspecting.record import AttentionRecord
from kit.inspecting.report import Report
from kit.registry import Registry

TEXTS = 64
"""How many texts heads are measured on, if nobody says otherwise."""
CLOSE = 1e-4


@dataclass(frozen=True)
class Measured:
    """What is known of a model's heads, whichever text is shown."""

    report: Report | None
    texts: tuple[Given, ...] = ()
    """What it was measured on, so that another model can be measured on the same."""
    notes: tuple[str, ...] = ()


def measured(inspector: Inspector, probes: Sequence[Probe], given: Given | None, most: int = TEXTS) -> Measured:
    """Measure heads on texts of the run's own data; where that cannot be read, on the given text alone."""
    texts: tuple[Given, ...] = ()
    why = ""
    if most > 0 and inspector.opened is not None:
        try:
            texts = tuple(inspector.examples(most=most))
        except (KitError, OSError) as error:
            why = f" because the run's data cannot be read ({error})"
    notes: tuple[str, ...] = ()
    if not texts and given is not None:
        texts = (given,)
        notes = (f"Heads were measured on this text alone{why}, so that there are no intervals.",)
    if not texts:
        return Measured(None, (), (f"Heads were not measured{why}.",) if why else ())
    return Measured(probe(inspector, _measuring(probes), texts, Controls()), texts, notes)


def scene(
    name: str, inspector: Inspector, given: Given, probes: Sequence[Probe] = (), known: Measured | None = None
) -> Scene:
    """One text through one model."""
    record = inspector.record(given)
    known = known or Measured(None)
    side = _side(name, inspector, record, probes, known.report)
    return Scene(as_example(given).source, (side,), wholes(known.report, probes), known.notes)


def another(
    shown: Scene, name: str, other: Inspector, first: Inspector, probes: Sequence[Probe], on: Measured
) -> Scene:
    """The same text, and the same target, through another model, which is shown as what was before."""
    mine = shown.sides[-1].record
    record = _same(mine, other, first.reader.ids_of(mine), name)
    report = None if on.report is None else probe(other, _measuring(probes), on.texts, Controls())
    side = _side(name, other, record, probes, report)
    return Scene(shown.text, (side, *shown.sides), shown.wholes, shown.notes)


def installed(registry: Registry, costly: bool = False) -> list[Probe]:
    """Every probe that is installed, as it is without options; with those that run the model many times or without."""
    found = [part.component for part in registry.components("probe")]
    probes = [it(it.options_type.model_validate({})) for it in found if issubclass(it, Probe)]
    return [each for each in probes if costly or not each.costly]


def example(inspector: Inspector) -> Example:
    """A text of the run's own data, for whoever has none."""
    found = next(iter(inspector.examples(most=1)), None)
    if found is None:
        raise KitError("the run's data holds no text that fits into the model; give a text")
    return found


def wholes(report: Report | None, probes: Sequence[Probe]) -> tuple[tuple[str, ...], ...]:
    """Measures of one probe that come to one for every head: shares of a whole, which are drawn together.

    They are found by their values, so that the shares of any probe are.
    """
    found = []
    for each in probes if report is not None else ():
        if not isinstance(each, HeadProbe):
            continue
        names = list(each.quantities)
        runs = [names[start:end] for start, end in combinations(range(len(names) + 1), 2) if end - start > 2]
        runs = [run for run in runs if report is not None and _sums_to_one(report, run)]
        if runs:
            found.append(max(map(tuple, runs), key=len))
    return tuple(found)


def _sums_to_one(report: Report, names: Sequence[str]) -> bool:
    sums = []
    for card in report.heads:
        values = [card.estimates[name].value for name in names if name in card.estimates]
        known = [value for value in values if value is not None]
        if len(known) == len(names) and any(known):
            sums.append(sum(known))
    return bool(sums) and all(abs(total - 1) < CLOSE for total in sums)


def _side(
    name: str, inspector: Inspector, record: AttentionRecord, probes: Sequence[Probe], report: Report | None
) -> Side:
    drawings = [it for each in probes if isinstance(each, TextProbe) for it in each.draw(record, inspector)]
    return Side(name, record, report, tuple(drawings))


def _same(mine: AttentionRecord, other: Inspector, ids: Ids, name: str) -> AttentionRecord:
    try:
        (record,) = other.look([ids])
    except (IndexError, RuntimeError) as error:
        raise KitError(f"{name} cannot read the tokens of the first run, so that they cannot be compared") from error
    for side in ("source", "target"):
        one, two = getattr(mine, side), getattr(record, side)
        if (None if one is None else one.tokens) != (None if two is None else two.tokens):
            raise KitError(
                f"{name} reads the text as other tokens than the first run (the {side}); wanted a run with the same "
                "tokenizer, such as one of the same recipe"
            )
    return record


def _measuring(probes: Sequence[Probe]) -> list[Probe]:
    return [each for each in probes if isinstance(each, HeadProbe | PairProbe)]
