"""`kit prune`: takes heads out of the model of a run, those first that it needs least."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.arguments import AsJson
from kit.cli.console import print_json, quantity, screen
from kit.cli.opening import opened_run

if TYPE_CHECKING:
    from kit.inspecting.pruning import Curve
    from kit.kit import Kit


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(prune)


def prune(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run: its folder, name and number, or name.")],
    heads: Annotated[str, typer.Option(metavar="SHARE", help="How many heads go: 30% of them, or a number.")] = "30%",
    by: Annotated[str, typer.Option(metavar="ORDER", help="Which go first: importance, oracle, random, gates, …")] = (
        "importance"
    ),
    texts: Annotated[int, typer.Option(min=1, help="How many texts of the run's data decide.")] = 64,
    orders: Annotated[int, typer.Option(min=1, help="How many random orders are tried beside it.")] = 5,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the curve; write no run.")] = False,
    json: AsJson = False,
) -> None:
    """Remove attention heads for good; the smaller model is a new run."""
    from kit.inspecting.inspector import inspect
    from kit.inspecting.ordering import Ordering
    from kit.inspecting.pruning import curve, how_many, seconds
    from kit.inspecting.pruning_picture import draw_curve
    from kit.inspecting.removing import remove, save

    kit: Kit = context.obj
    inspector = inspect(opened_run(run, kit, None))
    ordering = Ordering.named(by, kit.registry)
    rows = [inspector.reader.encode(example) for example in inspector.examples("validation", texts)]
    order = ordering.order(inspector, rows)
    going = order[: how_many(heads, len(order))]
    shown = curve(inspector, rows, order, orders=orders)
    report: dict[str, Any] = {"by": by, "texts": len(rows), "removed": going, "curve": vars(shown)}
    if not dry_run:
        assert inspector.opened is not None
        smaller = remove(inspector, going, rows)
        before, after = seconds(inspector, [inspector.model, smaller.model], rows[:32])
        report |= {
            "difference from masked": smaller.difference,
            "parameters": [_size(inspector.model), _size(smaller.model)],
            "seconds": [before, after],
        }
        made = save(smaller, inspector.opened, report)
        drawn = draw_curve(shown, by, len(going), made.reports / "pruning.png")
        report |= {"run": made.label, "picture": None if drawn is None else str(drawn)}
    if json:
        print_json(report)
        return
    _show(report, shown, len(order))


def _show(report: dict[str, Any], shown: Curve, total: int) -> None:
    out = screen()
    table = Table("heads masked", "loss", "random orders", "", box=None, pad_edge=False)
    for number, loss, mean, low, high in zip(
        shown.removed, shown.loss, shown.random, shown.random_low, shown.random_high, strict=True
    ):
        table.add_row(f"{number} of {total}", f"{loss:.4f}", f"{mean:.4f}", f"[dim]{low:.4f} to {high:.4f}[/]")
    out.print(table)
    out.print(
        f"mean over the curve: {shown.area:.4f} by {escape(report['by'])}, {shown.random_area:.4f} at random",
        highlight=False,
    )
    if "run" not in report:
        return
    by_site = Counter(site for site, _ in report["removed"])
    lost = ", ".join(f"{site} {number}" for site, number in sorted(by_site.items())) or "none"
    (whole, small), (before, after) = report["parameters"], report["seconds"]
    if report["picture"] is not None:
        out.print(f"the curve    {report['picture']}", highlight=False, soft_wrap=True)
    out.print(
        f"taken out    {escape(lost)}\n"
        f"parameters   {quantity(whole)} before, {quantity(small)} after ({small / whole:.1%})\n"
        f"speed        {before / after:.2f} times as fast: {before * 1e3:.1f} ms before, {after * 1e3:.1f} ms after\n"
        f"the same as masking, to {report['difference from masked']:.1g}\n"
        f"new run      {report['run']}\n"
        f"fine-tune    kit resume {report['run']} training.steps=500",
        highlight=False,
        soft_wrap=True,
    )


def _size(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
