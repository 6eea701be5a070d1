"""`kit diff`: what differs between two recipes, in architecture and in cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.arguments import AsJson
from kit.cli.console import print_json, screen
from kit.cli.explain import cost_table


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(diff)


def diff(
    context: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help="A recipe.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another recipe.")],
    json: AsJson = False,
) -> None:
    """Show what differs between two recipes, in architecture and in cost."""
    from kit.explaining.difference import changes, cost_changes
    from kit.recipe.dump import to_data

    kit = context.obj
    recipes = [kit.recipe(first), kit.recipe(second)]
    explained = [kit.explain(recipe) for recipe in recipes]
    found = changes(*(to_data(recipe, kit.registry) for recipe in recipes))
    if json:
        costs = cost_changes(*explained)
        print_json({"recipe": [asdict(change) for change in found], "cost": [asdict(change) for change in costs]})
        return
    out = screen()
    table = Table("what", first, second, box=None, pad_edge=False)
    for change in found:
        table.add_row(escape(change.path), escape(str(change.before)), escape(str(change.after)))
    out.print(table if found else "the recipes say the same")
    out.print()
    out.print(cost_table([each.cost for each in explained], ["A", "B"]))
