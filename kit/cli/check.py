"""`kit check`: is a recipe right? Every mistake at once, each with its line and the nearest right name."""

from __future__ import annotations

from dataclasses import asdict

import typer

from kit.cli.arguments import AsJson, Overrides, RecipeFile
from kit.cli.console import errors, print_json, screen
from kit.errors import KitError, RecipeError


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(check)


def check(context: typer.Context, recipe: RecipeFile, overrides: Overrides = None, json: AsJson = False) -> None:
    """Check a recipe; list every mistake with its line."""
    try:
        found = context.obj.recipe(recipe, overrides or ())
    except RecipeError as error:
        if json:
            print_json({"ok": False, "problems": [asdict(problem) for problem in error.problems]})
        else:
            for problem in error.problems:
                errors.print(str(problem), highlight=False, markup=False, soft_wrap=True)
            count = len(error.problems)
            mistakes = "1 mistake" if count == 1 else f"{count} mistakes"
            errors.print(f"[red]{mistakes}[/] in {recipe}", highlight=False, soft_wrap=True)
        raise typer.Exit(error.exit_code) from None
    except KitError as error:
        if json:
            print_json({"ok": False, "problems": [{"message": str(error)}]})
            raise typer.Exit(error.exit_code) from None
        raise
    if json:
        print_json({"ok": True, "name": found.name})
    else:
        screen().print(f"[green]{recipe} is right[/]: {found.name}, {found.model.family} of width {found.model.width}")
