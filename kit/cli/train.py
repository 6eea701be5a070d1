"""`kit train` and `kit resume`: train a recipe, or go on with a run."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kit.cli.arguments import Overrides, RecipeFile
from kit.cli.console import errors, quantity, screen
from kit.errors import KitError

if TYPE_CHECKING:
    from kit.kit import Kit
    from kit.recipe.sections import Recipe
    from kit.runs.directory import RunDirectory
    from kit.training.engine import Result

SHOWN = 8
"""How many answers are shown at the end."""
SIGNALLED = 128
"""What a shell expects of a program that a signal ended, with the number of the signal added."""


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(train)
    app.command()(resume)


def train(
    context: typer.Context,
    recipe: RecipeFile,
    overrides: Overrides = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would run, on what, how long, in how much memory.")
    ] = False,
) -> None:
    """Train a recipe in a new run."""
    kit: Kit = context.obj
    found = kit.recipe(recipe, overrides or ())
    folder = Path(recipe).resolve().parent
    out = screen()
    if dry_run:
        _dry_run(found, kit, folder, out)
        return
    _start_many(context, found, ["train", recipe, *(overrides or ())], out)
    _train(found, kit, out, folder=folder)


def resume(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run: pronounce, pronounce/3 or its folder.")],
    overrides: Overrides = None,
) -> None:
    """Go on with a run that was interrupted, from its last checkpoint."""
    from kit.runs.directory import RunDirectory

    kit: Kit = context.obj
    found, out = RunDirectory.open(run), screen()
    recipe = kit.recipe(found.recipe, overrides or ())
    _start_many(context, recipe, ["resume", run, *(overrides or ())], out)
    _train(recipe, kit, out, run=found)


def _start_many(context: typer.Context, recipe: Recipe, command: list[str], out: Console) -> None:
    """Where the recipe wants many processes, run the same command in each, wait for them, and end as they do."""
    from kit.training.choosing import Choices
    from kit.training.launching import launch, must_launch

    training = Choices(recipe, context.obj.registry).training  # an error that says what to add, where there is none
    if must_launch(training):
        left_out = [f"--no-plugin={name}" for name in context.find_root().params.get("no_plugin") or ()]
        again = [sys.executable, "-P", "-m", "kit", *left_out, *command]
        say = partial(errors.print, highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(launch(again, training, say))


def _train(
    recipe: Recipe, kit: Kit, out: Console, *, run: RunDirectory | None = None, folder: Path | None = None
) -> None:
    from kit.training.engine import train as train_recipe
    from kit.training.group import FailedElsewhere
    from kit.training.membership import Member
    from kit.training.progress import reporter_for

    member = Member.found()
    out = out if member is None or member.first else Console(quiet=True)
    try:
        result = train_recipe(recipe, kit, run, folder=folder, reporter=reporter_for(out))
    except KitError as error:
        if member is None or member.first:
            raise
        if not isinstance(error, FailedElsewhere):  # which the first process tells
            errors.print(f"process {member.rank}: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(error.exit_code) from error
    run = result.run
    if result.ending == "interrupted":
        out.print(
            f"stopped after step {result.step} of {result.steps}; everything is saved\n"
            f"    go on with: kit resume {run.label}",
            highlight=False,
        )
        raise typer.Exit(SIGNALLED + result.signal)
    _show(result, out)


def _show(result: Result, out: Console) -> None:
    from kit.training.progress import duration

    early = result.ending == "stopped early"
    why = ", because nothing got better any more" if early else ""
    if result.nothing_left:
        done = f"it ended after step {result.step}{why}" if early else f"all {result.steps} steps were made before"
        out.print(f"nothing was left to do: {done}", highlight=False)
    else:
        out.print(f"trained {result.step} steps in {duration(result.seconds)}{why}", highlight=False)
    evaluation = result.evaluation
    if evaluation is not None:
        table = Table("on held-out examples", "", box=None, pad_edge=False)
        for label, value in evaluation.shown.items():
            table.add_row(label, value)
        out.print(table)
        for signature in evaluation.signatures.values():
            out.print(f"[dim]{escape(signature)}[/]", highlight=False)
        if evaluation.answers:
            out.print(_answers(result))
    plot = result.run.reports / "loss.png"  # there where matplotlib is
    out.print(
        f"weights      {result.run.weights}\n"
        + (f"loss plot    {plot}\n" if plot.is_file() else "")
        + f"go on        kit resume {result.run.label} {_longer(result)}",
        highlight=False,
        soft_wrap=True,
    )


def _longer(result: Result) -> str:
    """What lets a run that is over go on."""
    return "training.patience=null" if result.ending == "stopped early" else f"training.steps={2 * result.steps}"


def _answers(result: Result) -> Table:
    """A few answers from all over the held-out examples."""
    assert result.evaluation is not None
    answers = result.evaluation.answers
    table = Table("given", "written", "wanted", box=None, pad_edge=False)
    for answer in answers[:: max(1, len(answers) // SHOWN)][:SHOWN]:
        right = answer.text.strip() in {reference.strip() for reference in answer.references}
        wanted = "[green]the same[/]" if right else escape(" or ".join(answer.references))
        table.add_row(escape(answer.source), escape(answer.text), wanted)
    return table


def _dry_run(recipe: Recipe, kit: Kit, folder: Path, out: Console) -> None:
    from kit.training.dry_run import plan
    from kit.training.progress import duration

    found = plan(recipe, kit, folder)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("would train", f"{recipe.name}, {recipe.model.family}, {found.parameters:,} parameters")
    table.add_row("on", found.machine)
    table.add_row("objective", found.objective)
    table.add_row("examples", f"{found.rows:,} in {found.batches_per_epoch:,} batches; {found.left_out:,} are too long")
    table.add_row("steps", f"{found.steps:,} of {found.tokens_a_step:,.0f} tokens: {found.epochs:.1f} epochs")
    table.add_row("padding", f"{found.padding:.1%} of what a batch holds, left out of the work")
    speed = found.tokens_a_step / found.seconds_a_step
    table.add_row("speed", f"{speed:,.0f} tokens/s in {found.measured} measured steps")
    table.add_row("time", f"about {duration(found.seconds_a_step * found.steps)}, without measuring on held-out data")
    table.add_row("memory", f"about {quantity(found.bytes, 'B')}")
    out.print(table)
