"""`kit evaluate`: computes the metrics of a run on held-out examples, with confidence intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.console import AsJson, print_json, screen
from kit.cli.run_arguments import Device, RunName, SearchWords, loaded_run, search_words

if TYPE_CHECKING:
    from kit.evaluation.report import Report

Files: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DATA]...", help="Files instead of the run's own data; or changes to that, such as data.max_length=40."
    ),
]
SplitName: TypeAlias = Annotated[str | None, typer.Option("--split", help="train, validation or test; left out, test.")]
MetricNames: TypeAlias = Annotated[
    str | None, typer.Option("--metrics", help="Which, with commas: bleu,chrf; left out, those of the recipe.")
]


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
    from kit.evaluation.evaluate import eval_source, evaluate_run, named_metrics
    from kit.evaluation.report import report

    loaded = loaded_run(run, context.obj, device)
    source = eval_source(loaded, data or (), split)
    found = report(evaluate_run(loaded, source, named_metrics(loaded, names_of(metrics)), search_words(search)), source)
    path = found.write(loaded.run.reports)
    if as_json:
        print_json(found.plain())
        return
    _show(found)
    screen().print(f"written to {path}", highlight=False, soft_wrap=True)


def names_of(text: str | None) -> list[str]:
    """Splits names at commas."""
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
