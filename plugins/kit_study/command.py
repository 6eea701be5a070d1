"""The command `kit study`: runs a study and prints its results as tables, JSON, a page or a documentation section."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kit.cli.console import AsJson, print_json, quantity, screen

if TYPE_CHECKING:
    from kit import Kit
    from kit_study.planning import Plan
    from kit_study.results import Outcome, Report

EXIT_FAILED = 1
"""The exit code where a cell failed."""
EXIT_INTERRUPTED = 130


def study(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A study in YAML.")],
    quick: Annotated[bool, typer.Option("--quick", help="The small size that the file names, in seconds.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Cells, or trials of a search, side by side.")] = 1,
    table: Annotated[bool, typer.Option("--table", help="Run nothing; show what is there.")] = False,
    plan_only: Annotated[bool, typer.Option("--plan", help="Run nothing; show the cells and their sizes.")] = False,
    page: Annotated[bool, typer.Option("--page", help="Run nothing; write what is there as one HTML file.")] = False,
    docs: Annotated[
        Path | None, typer.Option("--docs", metavar="FOLDER", help="Run nothing; write a section and figures there.")
    ] = None,
    folder: Annotated[Path, typer.Option("--folder", help="Where studies are.")] = Path("studies"),
    json: AsJson = False,
) -> None:
    """Run a study: every cell that is not done yet. Then show means with intervals, tests, costs and the winner."""
    from kit_study.planning import Plan
    from kit_study.results import report
    from kit_study.study_file import read_study

    kit: Kit = context.obj
    plan = Plan(read_study(file, kit.registry, quick=quick), kit, folder)
    out = screen()
    if plan_only:
        _show_plan(plan, out)
        return
    failed = 0
    if not (table or page or docs or json):
        failed = _run(context, plan, jobs, out)
    found = report(plan)
    if json:
        print_json(found.as_data())
    elif page:
        from kit_study.page import write_page

        out.print(str(write_page(found)), highlight=False, soft_wrap=True)
    elif docs is not None:
        from kit_study.docs_section import write_section

        out.print(str(write_section(found, docs, file)), highlight=False, soft_wrap=True)
    else:
        show(found, out)
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _run(context: typer.Context, plan: Plan, jobs: int, out: Console) -> int:
    without = context.find_root().params.get("no_plugin") or ()

    def say(text: str) -> None:
        out.print(text, highlight=False, markup=False, soft_wrap=True)

    try:
        if plan.study.section.search is not None:
            from kit_study.search import search

            return search(plan, jobs=jobs, without=without, say=say)
        from kit_study.runner import run_study

        return run_study(plan, jobs=jobs, without=without, say=say)
    except KeyboardInterrupt:
        say("stopped; what is done is kept, and the same command goes on")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _show_plan(plan: Plan, out: Console) -> None:
    from kit_study.budget import CostCounter

    counter = CostCounter(plan.kit, plan.study.folder)
    table = Table(*plan.study.section.axes, "parameters", "adjusted", "steps", "runs", box=None, pad_edge=False)
    for number, each in enumerate(plan.combinations):
        recipe = each.recipe(plan.study, plan.kit)
        steps = recipe.training.steps if recipe.training is not None and each.section.trains else 0
        adjusted = ", ".join(f"{path} = {value}" for path, value in each.adjusted.items())
        runs = len(plan.study.seeds) + max(0, len(plan.sweeps.get(number, ())) - 1)
        size = f"{counter.parameters(recipe):,}"
        table.add_row(*map(escape, each.labels.values()), size, adjusted, f"{steps:,}", str(runs))
    out.print(table)


def show(found: Report, out: Console) -> None:
    """Prints the results, one table for each condition."""
    from kit_study.cost import study_cost
    from kit_study.results import TESTS

    section = found.plan.study.section
    if section.claim:
        out.print(escape(section.claim), highlight=False)
    better = "higher" if found.plan.higher else "lower"
    out.print(f"[dim]{section.metric}, {better} is better; ± is a 95 % interval over seeds (Student's t)[/]")
    for outcome in found.outcomes:
        out.print()
        if outcome.title:
            out.print(f"[bold]{escape(outcome.title)}[/]", highlight=False)
        out.print(_table(found, outcome))
        out.print(escape(outcome.verdict), highlight=False)
    for outcome in found.outcomes:
        for row in outcome.rows:
            for failure in row.failures:
                out.print(f"[red]failed[/] {escape(failure.splitlines()[0])}", highlight=False, soft_wrap=True)
    out.print(f"[dim]{TESTS}[/]", highlight=False)
    out.print(f"[dim]{study_cost(found.plan).words}[/]", highlight=False)
    if not found.complete:
        out.print("[yellow]not all cells have run yet[/]")


def _table(found: Report, outcome: Outcome) -> Table:
    from kit_study.page import format_mean

    section = found.plan.study.section
    swept = any(row.swept is not None for row in outcome.rows)
    columns = [found.plan.study.compared or "", section.metric, "against the base", "p", "seeds"]
    columns += ["rate" if section.sweep is None else section.sweep.path.rpartition(".")[2]] if swept else []
    table = Table(*columns, "parameters", "FLOPs", "s", box=None, pad_edge=False)
    for row in outcome.rows:
        best = row.label == outcome.winner
        name = f"[bold green]{escape(row.label)}[/]" if best else escape(row.label)
        value = format_mean(row.estimate) or "-"
        against = "base" if row.is_base else format_mean(row.difference, signed=True) or "-"
        p_value = "" if row.p is None else f"{row.p:.2g}"
        costs = [row.mean(name) for name in ("parameters", "flops", "seconds")]
        shown = ["-" if cost is None else quantity(cost) for cost in costs]
        rate = [f"{row.swept:g}" if row.swept is not None else "-"] if swept else []
        table.add_row(name, value, against, p_value, str(len(row.results)), *rate, *shown)
    return table
