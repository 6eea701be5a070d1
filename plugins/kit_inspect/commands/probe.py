"""`kit probe`: prints the measures and the role of each attention head of a run."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from kit import KitError
from kit.cli.console import AsJson, print_json, screen
from kit_inspect.commands.arguments import RunName, inspector_of, lines_of

if TYPE_CHECKING:
    from kit import Kit, Probe
    from kit_inspect.head_report import Estimate, HeadCard, Report


def probe(
    context: typer.Context,
    run: RunName,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Texts, one a line, with a tab before the target of a pair.")
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="How many texts at the most.")] = 64,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="PROBE", help="Only this probe; may be given again.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Costly probes too: ablation, shuffling, saliency.")] = False,
    number: Annotated[
        list[str] | None, typer.Option("--number", metavar="NAME", help="A measure to show; may be given again.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Measure every attention head; without a file, on the run's own validation data."""
    from kit import HeadProbe
    from kit_inspect.head_report import measure_heads

    kit: Kit = context.obj
    inspector = inspector_of(run, kit)
    chosen = _chosen(kit, only, every)
    examples = islice(_pairs(file), texts) if file is not None else inspector.examples("validation", texts)
    report = measure_heads(inspector, chosen, examples)
    for name in number or ():
        if name not in report.meanings:
            raise KitError(f"no probe gives a number {name!r}; there are {', '.join(sorted(report.meanings))}")
    if json:
        print_json(report.plain())
        return
    headline = [name for each in chosen if isinstance(each, HeadProbe) for name in each.headline]
    _show(report, number or headline)


def _chosen(kit: Kit, only: list[str] | None, every: bool) -> list[Probe]:
    from kit_inspect.head_order import installed_probes

    found = installed_probes(kit.registry, costly=every or bool(only))
    if not only:
        return found
    known = {each.name(): each for each in found}
    for name in only:
        if name not in known:
            raise KitError(f"there is no probe {name!r}; known: {', '.join(sorted(known))}")
    return [known[name] for name in only]


def _pairs(file: Path) -> list[str | tuple[str, str]]:
    parts = [line.partition("\t") for line in lines_of(file)]
    return [(source, target) if tab else source for source, tab, target in parts]


def _show(report: Report, numbers: list[str]) -> None:
    out = screen()
    measured = {name for card in report.heads for name in card.estimates}
    names = [name for name in numbers if name in measured] or sorted(measured)[:8]
    table = Table(Column("head", no_wrap=True), *names, "what it does", box=None, pad_edge=False)
    for site in dict.fromkeys(card.site for card in report.heads):
        cards = [card for card in report.heads if card.site == site]
        table.add_row(f"[bold]{escape(site)}[/]")
        for card in cards:
            table.add_row(
                f"  head {card.head}", *(_shown(card.estimates.get(name)) for name in names), escape(card.role)
            )
        for label, control in (("  uniform attention", "uniform"), ("  untrained", "untrained")):
            table.add_row(label, *(_mean(cards, name, control) for name in names), "", style="dim")
    out.print(table)
    out.print(
        f"measured on {report.sequences} texts; ± is half of the 95 % bootstrap interval over texts. Below "
        "each layer: the value under uniform attention, and in the untrained model, in the mean of its heads.",
        style="dim",
    )
    for name in names:
        out.print(f"[dim]{escape(name)}: {escape(report.meanings[name])}[/]", highlight=False)


def _shown(found: Estimate | None) -> str:
    if found is None or found.value is None:
        return "–"
    width = "" if found.low is None or found.high is None else f"[dim]±{(found.high - found.low) / 2:.2f}[/]"
    return f"{found.value:.2f}{width}"


def _mean(cards: list[HeadCard], name: str, control: str) -> str:
    values = [getattr(card.estimates[name], control) for card in cards if name in card.estimates]
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.2f}" if known else "–"
