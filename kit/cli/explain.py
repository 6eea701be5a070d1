"""`kit explain`: a model as a tree of parts with shapes and parameters, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from kit.cli.arguments import AsJson, Overrides, RecipeFile
from kit.cli.console import print_json, screen
from kit.explaining.wording import cost_rows

if TYPE_CHECKING:
    from kit.explaining.cost import Cost
    from kit.explaining.tree import Node


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(explain)


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


def model_tree(node: Node, name: str) -> Tree:
    """The parts of a model, as a tree to print."""
    tree = Tree(_label(node, name))
    for child in node.children:
        tree.add(model_tree(child, child.name))
    return tree


def _label(node: Node, name: str) -> str:
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
    """One column a model."""
    table = Table(show_header=names is not None, box=None, pad_edge=False)
    table.add_column("")
    for name in names or [""]:
        table.add_column(name, justify="right")
    rows = [cost_rows(cost) for cost in costs]
    for label in rows[0]:
        table.add_row(label, *(list(row.values())[list(rows[0]).index(label)] for row in rows))
    return table
