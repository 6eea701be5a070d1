"""`kit explain` and `kit diff`: the components, shapes and costs of a model, and how two recipes differ."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from kit.cli.console import AsJson, Overrides, RecipeFile, print_json, screen

if TYPE_CHECKING:
    from kit.explain.cost import Cost
    from kit.model.part_tree import PartNode


def explain(context: typer.Context, recipe: RecipeFile, overrides: Overrides = None, json: AsJson = False) -> None:
    """Show what a recipe comes to: parts, shapes, parameters, costs."""
    explanation = context.obj.explain(context.obj.recipe(recipe, overrides or ()))
    if json:
        print_json(explanation.as_data())
        return
    out = screen()
    out.print(model_tree(explanation.tree, explanation.name))
    out.print(cost_table([explanation.cost]))
    for note in explanation.notes:
        out.print(f"[dim]{note}[/]")


def model_tree(node: PartNode, name: str) -> Tree:
    """Renders the part tree of a model for printing."""
    tree = Tree(_label(node, name))
    for child in node.children:
        tree.add(model_tree(child, child.name))
    return tree


def _label(node: PartNode, name: str) -> str:
    words = [f"[bold]{escape(name)}[/]"]
    if node.part:
        words.append(f"[cyan]{escape(node.part.split(' ', 1)[1])}[/]")
    if node.options:
        words.append(f"[dim]({escape(node.options)})[/]")
    if node.shapes:
        words.append(escape(", ".join(node.shapes)))
    if node.shared:
        words.append("[dim]shared[/]")
    elif node.parameters:
        each = f"{node.repeat} × {node.parameters // node.repeat:,} = " if node.repeat > 1 else ""
        words.append(f"[green]{each}{node.parameters:,}[/]")
    return "  ".join(words)


def cost_table(costs: list[Cost], names: list[str] | None = None) -> Table:
    """Renders costs as a table with a column for each model."""
    from kit.explain.explanation import cost_rows

    table = Table(show_header=names is not None, box=None, pad_edge=False)
    table.add_column("")
    for name in names or [""]:
        table.add_column(name, justify="right")
    rows = [cost_rows(cost) for cost in costs]
    for label in rows[0]:
        table.add_row(label, *(list(row.values())[list(rows[0]).index(label)] for row in rows))
    return table


def diff(
    context: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help="A recipe.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another recipe.")],
    json: AsJson = False,
) -> None:
    """Show what differs between two recipes, in architecture and in cost."""
    from kit.explain.explanation import cost_changes
    from kit.recipe.difference import changes
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
