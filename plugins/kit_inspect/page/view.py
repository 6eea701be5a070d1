"""View of an attention page: one example through one model or two, with head reports and drawings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from kit import (
    AttentionRecord,
    Drawing,
    Example,
    ExampleIds,
    ExampleLike,
    HeadProbe,
    Inspector,
    KitError,
    PairProbe,
    Probe,
    SequenceProbe,
    as_example,
)
from kit_inspect.head_report import Controls, Report, measure_heads

EXAMPLES = 64
"""Examples that heads are measured on by default."""
TOLERANCE = 1e-4


@dataclass(frozen=True)
class ModelView:
    """One model: its attention on the example, and the measures of its heads."""

    name: str
    """The name of the run."""
    record: AttentionRecord
    report: Report | None = None
    """The head report; None if nothing was measured."""
    drawings: tuple[Drawing, ...] = ()
    """Drawings of the whole sequence: rollout, alignment."""


@dataclass(frozen=True)
class PageView:
    """The contents of a page."""

    text: str
    """The input text."""
    models: tuple[ModelView, ...]
    """One model; or two that are compared, the reference first."""
    normalized_measures: tuple[tuple[str, ...], ...] = ()
    """The names of measures that sum to one for every head, in groups."""
    notes: tuple[str, ...] = field(default=())
    """Notes to the reader."""


@dataclass(frozen=True)
class Measured:
    """The head report of a model, which is the same for all examples that are shown."""

    report: Report | None
    examples: tuple[ExampleLike, ...] = ()
    """The examples of the report, on which another model is measured too."""
    notes: tuple[str, ...] = ()


def measured(
    inspector: Inspector, probes: Sequence[Probe], example: ExampleLike | None, most: int = EXAMPLES
) -> Measured:
    """Measures heads on the run's own data; if it cannot be read, on the given example alone."""
    examples: tuple[ExampleLike, ...] = ()
    why = ""
    if most > 0 and inspector.loaded_run is not None:
        try:
            examples = tuple(inspector.examples(most=most))
        except (KitError, OSError) as error:
            why = f" because the run's data cannot be read ({error})"
    notes: tuple[str, ...] = ()
    if not examples and example is not None:
        examples = (example,)
        notes = (f"Heads were measured on this text alone{why}, so that there are no intervals.",)
    if not examples:
        return Measured(None, (), (f"Heads were not measured{why}.",) if why else ())
    return Measured(measure_heads(inspector, _head_measures(probes), examples, Controls()), examples, notes)


def page_view(
    name: str,
    inspector: Inspector,
    example: ExampleLike,
    probes: Sequence[Probe] = (),
    known: Measured | None = None,
) -> PageView:
    """Builds the view of one example through one model."""
    record = inspector.record(example)
    known = known or Measured(None)
    model = _model_view(name, inspector, record, probes, known.report)
    return PageView(as_example(example).source, (model,), sums_to_one(known.report, probes), known.notes)


def with_comparison(
    view: PageView, name: str, other: Inspector, first: Inspector, probes: Sequence[Probe], known: Measured
) -> PageView:
    """Adds another model in front of a view, on the same example with the same target."""
    own = view.models[-1].record
    record = _same_example(own, other, first.reader.ids_of(own), name)
    report = None
    if known.report is not None:
        report = measure_heads(other, _head_measures(probes), known.examples, Controls())
    model = _model_view(name, other, record, probes, report)
    return PageView(view.text, (model, *view.models), view.normalized_measures, view.notes)


def first_example(inspector: Inspector) -> Example:
    """Returns the first example of the run's own data."""
    found = next(iter(inspector.examples(most=1)), None)
    if found is None:
        raise KitError("the run's data holds no text that fits into the model; give a text")
    return found


def sums_to_one(report: Report | None, probes: Sequence[Probe]) -> tuple[tuple[str, ...], ...]:
    """Finds the adjacent measures of each probe that sum to one for every head, by their values."""
    found = []
    for each in probes if report is not None else ():
        if not isinstance(each, HeadProbe):
            continue
        names = list(each.quantities)
        runs = [names[start:end] for start, end in combinations(range(len(names) + 1), 2) if end - start > 2]
        runs = [run for run in runs if report is not None and _sum_to_one(report, run)]
        if runs:
            found.append(max(map(tuple, runs), key=len))
    return tuple(found)


def _sum_to_one(report: Report, names: Sequence[str]) -> bool:
    sums = []
    for card in report.heads:
        values = [card.estimates[name].value for name in names if name in card.estimates]
        known = [value for value in values if value is not None]
        if len(known) == len(names) and any(known):
            sums.append(sum(known))
    return bool(sums) and all(abs(total - 1) < TOLERANCE for total in sums)


def _model_view(
    name: str, inspector: Inspector, record: AttentionRecord, probes: Sequence[Probe], report: Report | None
) -> ModelView:
    drawings = [it for each in probes if isinstance(each, SequenceProbe) for it in each.draw(record, inspector)]
    return ModelView(name, record, report, tuple(drawings))


def _same_example(own: AttentionRecord, other: Inspector, ids: ExampleIds, name: str) -> AttentionRecord:
    try:
        (record,) = other.run([ids])
    except (IndexError, RuntimeError) as error:
        raise KitError(f"{name} cannot read the tokens of the first run, so that they cannot be compared") from error
    for side in ("source", "target"):
        one, two = getattr(own, side), getattr(record, side)
        if (None if one is None else one.tokens) != (None if two is None else two.tokens):
            raise KitError(
                f"{name} reads the text as other tokens than the first run (the {side}); wanted a run with the same "
                "tokenizer, such as one of the same recipe"
            )
    return record


def _head_measures(probes: Sequence[Probe]) -> list[Probe]:
    return [each for each in probes if isinstance(each, HeadProbe | PairProbe)]
