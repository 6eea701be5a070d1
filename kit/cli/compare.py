"""`kit compare`: which of two runs is better on the same examples, or that it is not decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.arguments import AsJson
from kit.cli.console import print_json, screen
from kit.cli.evaluate import Files, MetricNames, SplitName, names_of
from kit.cli.opening import Device, RunName, SearchWords, joined, opened_run

if TYPE_CHECKING:
    from kit.evaluating.comparison import Compared, Comparison


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(compare)


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
    from kit.evaluating.comparison import compare as compare_runs
    from kit.evaluating.measuring import measure, named_metrics, questions

    left, right = (opened_run(run, context.obj, device) for run in (first, second))
    asked = questions(left, data or (), split)
    chosen = named_metrics(left, names_of(metrics))
    found = compare_runs(*(measure(run, asked, chosen, joined(search)) for run in (left, right)))
    if as_json:
        print_json({"data": asked.name} | found.plain())
        return
    _show(found, asked.name)


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
    return [
        found.metric.label,
        show(it.first),
        show(it.second),
        signed,
        f"{show(it.low)} to {show(it.high)}",
        f"{it.p:.3f}",
    ]
