"""`kit train` and `kit resume`: trains a recipe, or resumes a run."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kit.cli.console import Overrides, RecipeFile, errors, quantity, screen
from kit.errors import KitError

if TYPE_CHECKING:
    from kit.kit import Kit
    from kit.recipe.sections import Recipe
    from kit.runs.run_directory import RunDirectory
    from kit.training.train import TrainingResult

MAX_SHOWN = 8
"""The most predictions that are printed after training."""
SIGNAL_EXIT_BASE = 128
"""The exit code after a signal is this plus the number of the signal (the convention of shells)."""


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
    _launch_if_many(context, found, ["train", recipe, *(overrides or ())], out)
    _train_and_show(found, kit, out, folder=folder)


def resume(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run: pronounce, pronounce/3 or its folder.")],
    overrides: Overrides = None,
) -> None:
    """Go on with a run that was interrupted, from its last checkpoint."""
    from kit.runs.run_directory import RunDirectory

    kit: Kit = context.obj
    found, out = RunDirectory.open(run), screen()
    recipe = kit.recipe(found.recipe, overrides or ())
    _launch_if_many(context, recipe, ["resume", run, *(overrides or ())], out)
    _train_and_show(recipe, kit, out, run=found)


def _launch_if_many(context: typer.Context, recipe: Recipe, command: list[str], out: Console) -> None:
    """Launches the command in all processes and exits with their code, if the recipe wants several processes."""
    from kit.distributed.launcher import launch_processes, must_launch
    from kit.recipe.parts import RecipeParts

    training = RecipeParts(recipe, context.obj.registry).training  # KitError if the recipe has no training section
    if must_launch(training):
        disabled = [f"--no-plugin={name}" for name in context.find_root().params.get("no_plugin") or ()]
        again = [sys.executable, "-P", "-m", "kit", *disabled, *command]
        say = partial(errors.print, highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(launch_processes(again, training, say))


def _train_and_show(
    recipe: Recipe, kit: Kit, out: Console, *, run: RunDirectory | None = None, folder: Path | None = None
) -> None:
    from kit.distributed.process_group import FailedElsewhere
    from kit.distributed.rank_info import RankInfo
    from kit.training.progress import reporter_for
    from kit.training.train import train as train_recipe

    rank_info = RankInfo.from_environment()
    out = out if rank_info is None or rank_info.is_main else Console(quiet=True)
    try:
        result = train_recipe(recipe, kit, run, folder=folder, reporter=reporter_for(out))
    except KitError as error:
        if rank_info is None or rank_info.is_main:
            raise
        if not isinstance(error, FailedElsewhere):  # rank 0 reports that error
            errors.print(
                f"process {rank_info.rank}: {error}", style="red", highlight=False, markup=False, soft_wrap=True
            )
        raise typer.Exit(error.exit_code) from error
    run = result.run
    if result.ending == "interrupted":
        out.print(
            f"stopped after step {result.step} of {result.steps}; everything is saved\n"
            f"    go on with: kit resume {run.label}",
            highlight=False,
        )
        raise typer.Exit(SIGNAL_EXIT_BASE + result.signal)
    _show(result, out)


def _show(result: TrainingResult, out: Console) -> None:
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
            out.print(_prediction_table(result))
    plot = result.run.reports / "loss.png"  # written by the plugin kit_loss_plot
    out.print(
        f"weights      {result.run.weights}\n"
        + (f"loss plot    {plot}\n" if plot.is_file() else "")
        + f"go on        kit resume {result.run.label} {_resume_override(result)}",
        highlight=False,
        soft_wrap=True,
    )


def _resume_override(result: TrainingResult) -> str:
    """Returns an override with which the finished run can be resumed."""
    return "training.patience=null" if result.ending == "stopped early" else f"training.steps={2 * result.steps}"


def _prediction_table(result: TrainingResult) -> Table:
    """Renders a few predictions, evenly spaced over the held-out examples."""
    assert result.evaluation is not None
    answers = result.evaluation.answers
    table = Table("given", "written", "wanted", box=None, pad_edge=False)
    for answer in answers[:: max(1, len(answers) // MAX_SHOWN)][:MAX_SHOWN]:
        right = answer.text.strip() in {reference.strip() for reference in answer.references}
        wanted = "[green]the same[/]" if right else escape(" or ".join(answer.references))
        table.add_row(escape(answer.source), escape(answer.text), wanted)
    return table


def _dry_run(recipe: Recipe, kit: Kit, folder: Path, out: Console) -> None:
    from kit.training.dry_run import plan_training
    from kit.training.progress import duration

    found = plan_training(recipe, kit, folder)
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
