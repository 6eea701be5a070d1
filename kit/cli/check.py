"""`kit check`: validates a recipe, lists all its mistakes, and compares the installation with the lock of a run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from kit.cli.console import AsJson, Overrides, errors, print_json, screen
from kit.errors import KitError, RecipeError
from kit.kit import Kit

DIFFERS = 1
"""The exit code of `kit check --locked` if the installation differs from the lock."""


def check(
    context: typer.Context,
    recipe: Annotated[str | None, typer.Argument(metavar="[RECIPE]", help="A recipe in YAML.")] = None,
    overrides: Overrides = None,
    json: AsJson = False,
    locked: Annotated[
        str | None, typer.Option("--locked", metavar="RUN", help="Also: is everything as when this run was made?")
    ] = None,
    no_third_party: Annotated[
        bool,
        typer.Option("--no-third-party", help="Import no plugin but the kit's own, and refuse recipes that need one."),
    ] = False,
) -> None:
    """Check a recipe; list every mistake with its line. With --locked RUN alone, check the recipe of that run."""
    kit = Kit(third_party=False) if no_third_party else context.obj
    run = None if locked is None else _run(locked)
    source = recipe if recipe is not None else None if run is None else str(run.recipe)
    if source is None:
        raise KitError(
            "there is nothing to check\n    name a recipe: kit check RECIPE; or a run: kit check --locked RUN"
        )
    try:
        found = kit.recipe(source, overrides or ())
    except RecipeError as error:
        _print_problems(error, source, json, [] if run is None else _differences(run, kit))
        raise typer.Exit(error.exit_code) from None
    except KitError as error:
        if json:
            print_json({"ok": False, "problems": [{"message": str(error)}]})
            raise typer.Exit(error.exit_code) from None
        raise
    differences = [] if run is None else _differences(run, kit)
    if json:
        more = {} if run is None else {"differences": differences}
        print_json({"ok": not differences, "name": found.name, **more})
    else:
        right = f"[green]{source} is right[/]: {found.name}, {found.model.family} of width {found.model.width}"
        screen().print(right, soft_wrap=True)
        if run is not None:
            lines = [f"not as when {run.label} was made: {difference}" for difference in differences]
            for line in lines or [f"everything is as when {run.label} was made"]:
                screen().print(line, highlight=False, markup=False, soft_wrap=True)
    if differences:
        raise typer.Exit(DIFFERS)


def _run(name: str) -> Any:
    from kit.runs.run_directory import RunDirectory

    return RunDirectory.open(name)


def _differences(run: Any, kit: Kit) -> list[str]:
    from kit.prediction.load_run import lock_differences

    return lock_differences(run, kit)


def _print_problems(error: RecipeError, source: str, json: bool, differences: list[str]) -> None:
    if json:
        more = {"differences": differences} if differences else {}
        print_json({"ok": False, "problems": [asdict(problem) for problem in error.problems], **more})
        return
    for problem in error.problems:
        errors.print(str(problem), highlight=False, markup=False, soft_wrap=True)
    count = len(error.problems)
    mistakes = "1 mistake" if count == 1 else f"{count} mistakes"
    errors.print(f"[red]{mistakes}[/] in {source}", highlight=False, soft_wrap=True)
    for difference in differences:
        errors.print(f"not as when the run was made: {difference}", highlight=False, markup=False, soft_wrap=True)
