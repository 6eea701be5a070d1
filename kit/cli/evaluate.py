"""`kit evaluate`: how well a run does on held-out examples, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.arguments import AsJson
from kit.cli.console import print_json, screen
from kit.cli.opening import Device, RunName, SearchWords, joined, opened_run

if TYPE_CHECKING:
    from kit.evaluating.report import Report

Files: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DATA]...", help="Files instead of the run's own data; or changes to that, such as data.longest=40."
    ),
]
SplitName: TypeAlias = Annotated[str | None, typer.Option("--split", help="train, validation or test; left out, test.")]
MetricNames: TypeAlias = Annotated[
    str | None, typer.Option("--metrics", help="Which, with commas: bleu,chrf; left out, those of the recipe.")
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(evaluate)


def evaluate(
    context: typer.Context,
    run: RunName,
    data: Files = None,
    split: SplitName = None,
    metrics: MetricNames = None,
    search: SearchWords = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Measure a run on held-out examples; each figure with the interval that 95 % of draws lie in."""
    from kit.evaluating.measuring import measure, named_metrics, questions
    from kit.evaluating.report import report

    opened = opened_run(run, context.obj, device)
    asked = questions(opened, data or (), split)
    found = report(measure(opened, asked, named_metrics(opened, names_of(metrics)), joined(search)), asked)
    path = found.write(opened.run.reports)
    if as_json:
        print_json(found.plain())
        return
    _show(found)
    screen().print(f"written to {path}", highlight=False, soft_wrap=True)


def names_of(text: str | None) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _show(found: Report) -> None:
    out = screen()
    left = f", {found.left_out:,} left out because they are too long" if found.left_out else ""
    out.print(f"{found.run} on {found.data}: {found.examples:,} examples{left}", highlight=False)
    table = Table("", "value", "95 % interval", box=None, pad_edge=False)
    for it in found.figures:
        low_high = "-" if it.interval is None else " to ".join(map(it.shown, it.interval))
        table.add_row(escape(it.label), it.shown(it.value), low_high)
    out.print(table)
    for it in found.figures:
        if it.signature:
            out.print(f"[dim]{escape(it.label)}: {escape(it.signature)}[/]", highlight=False)
