"""`kit compare`: compares two runs on the same examples by a paired test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.console import AsJson, print_json, screen
from kit.cli.evaluate import Files, MetricNames, SplitName, names_of
from kit.cli.run_arguments import Device, RunName, SearchWords, loaded_run, search_words

if TYPE_CHECKING:
    from kit.evaluation.comparison import Compared, Comparison


def compare(
    context: typer.Context,
    first: RunName,
    second: RunName,
    data: Files = None,
    split: SplitName = None,
    metrics: MetricNames = None,
    search: SearchWords = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Compare two runs on the data of the first, with a paired test."""
    from kit.evaluation.comparison import compare as compare_runs
    from kit.evaluation.evaluate import eval_source, evaluate_run, named_metrics

    left, right = (loaded_run(run, context.obj, device) for run in (first, second))
    source = eval_source(left, data or (), split)
    chosen = named_metrics(left, names_of(metrics))
    found = compare_runs(*(evaluate_run(run, source, chosen, search_words(search)) for run in (left, right)))
    if as_json:
        print_json({"data": source.name} | found.plain())
        return
    _show(found, source.name)


def _show(found: Comparison, data: str) -> None:
    out = screen()
    table = Table("", found.first, found.second, "difference", "95 % interval", "p", box=None, pad_edge=False)
    for it in found.figures:
        table.add_row(*map(escape, _cells(it)))
    out.print(table)
    out.print(f"on {data}: {found.examples:,} examples that both measured", highlight=False)
    for it in found.figures:
        out.print(found.sentence(it), highlight=False, markup=False, soft_wrap=True)
    for note in found.notes:
        out.print(note, style="dim", highlight=False, markup=False, soft_wrap=True)


def _cells(found: Compared) -> list[str]:
    it, show = found.difference, found.shown
    signed = f"{'+' if it.value > 0 else ''}{show(it.value)}"
    interval = f"{show(it.low)} to {show(it.high)}"
    return [found.metric.label, show(it.first), show(it.second), signed, interval, f"{it.p:.3f}"]
