"""`kit prune`: removes attention heads from the model of a run, the least important first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.console import AsJson, print_json, quantity, screen
from kit_inspect.commands.arguments import RunName, inspector_of

if TYPE_CHECKING:
    from kit import Kit
    from kit_inspect.pruning_curve import PruningCurve


def prune(
    context: typer.Context,
    run: RunName,
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
    from kit_inspect.head_order import HeadOrder
    from kit_inspect.head_pruning import prune_heads, save_pruned
    from kit_inspect.pruning_curve import draw_curve, forward_seconds, parse_head_count, pruning_curve

    kit: Kit = context.obj
    inspector = inspector_of(run, kit)
    head_order = HeadOrder.named(by, kit.registry)
    rows = [inspector.reader.encode(example) for example in inspector.examples("validation", texts)]
    order = head_order.order(inspector, rows)
    removed = order[: parse_head_count(heads, len(order))]
    curve = pruning_curve(inspector, rows, order, random_orders=orders)
    report: dict[str, Any] = {"by": by, "texts": len(rows), "removed": removed, "curve": vars(curve)}
    if not dry_run:
        assert inspector.loaded_run is not None
        pruned = prune_heads(inspector, removed, rows)
        before, after = forward_seconds(inspector, [inspector.model, pruned.model], rows[:32])
        report |= {
            "difference from masked": pruned.difference,
            "parameters": [_size(inspector.model), _size(pruned.model)],
            "seconds": [before, after],
        }
        made = save_pruned(pruned, inspector.loaded_run, report)
        drawn = draw_curve(curve, by, len(removed), made.reports / "pruning.png")
        report |= {"run": made.label, "picture": None if drawn is None else str(drawn)}
    if json:
        print_json(report)
        return
    _show(report, curve, len(order))


def _show(report: dict[str, Any], curve: PruningCurve, total: int) -> None:
    out = screen()
    table = Table("heads masked", "loss", "random orders", "", box=None, pad_edge=False)
    for number, loss, mean, low, high in zip(
        curve.removed, curve.loss, curve.random, curve.random_low, curve.random_high, strict=True
    ):
        table.add_row(f"{number} of {total}", f"{loss:.4f}", f"{mean:.4f}", f"[dim]{low:.4f} to {high:.4f}[/]")
    out.print(table)
    out.print(
        f"mean over the curve: {curve.area:.4f} by {escape(report['by'])}, {curve.random_area:.4f} at random",
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
        f"pruned       {escape(lost)}\n"
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
