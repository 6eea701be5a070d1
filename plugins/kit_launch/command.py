"""`kit launch`: writes the batch script that trains a recipe on a cluster."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from kit import KitError, RunDirectory, write_text
from kit.cli.console import Overrides, screen
from kit_launch.slurm import SlurmJob

if TYPE_CHECKING:
    from kit import Kit

SlurmOption = Annotated[str | None, typer.Option(help="As sbatch has it.")]


def launch(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe in YAML, or a run to go on with.")],
    overrides: Overrides = None,
    slurm: Annotated[bool, typer.Option("--slurm", help="For SLURM; the only cluster there is a script for.")] = False,
    nodes: Annotated[int | None, typer.Option(min=1, help="Machines; left out, as the recipe says.")] = None,
    gpus_per_node: Annotated[int | None, typer.Option(min=1, help="GPUs, and processes, on each.")] = None,
    time: Annotated[str | None, typer.Option(help="The longest it may take, such as 24:00:00.")] = None,
    partition: SlurmOption = None,
    account: SlurmOption = None,
    memory: Annotated[str | None, typer.Option(help="Memory of each node, such as 64G.")] = None,
    cpus: Annotated[int | None, typer.Option(min=1, help="Processor cores for each process.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it; - prints it.")] = None,
) -> None:
    """Write a batch script that trains a recipe, or resumes a run, on many machines."""
    if not slurm:
        raise KitError(
            "for which cluster? write kit launch RECIPE --slurm; without a cluster kit train starts by itself"
        )
    kit: Kit = context.obj
    resumed = None if Path(recipe).is_file() or recipe.endswith((".yaml", ".yml")) else RunDirectory.open(recipe)
    found = kit.recipe(recipe if resumed is None else resumed.recipe, overrides or ())
    if found.training is None:
        raise KitError(f"{recipe} has no training section, so there is nothing to launch")
    job = replace(
        SlurmJob.of(found.name, found.training, nodes, gpus_per_node),
        time=time,
        partition=partition,
        account=account,
        memory=memory,
        cpus=cpus,
    )
    what = ["train", str(Path(recipe).resolve())] if resumed is None else ["resume", str(resumed.path.resolve())]
    size = [f"training.nodes={job.nodes}", f"training.devices={job.devices}"]
    left_out = [f"--no-plugin={name}" for name in context.find_root().params.get("no_plugin") or ()]
    left_out += ["--allow-outside"] if context.find_root().params.get("outside") else []
    command = [sys.executable, "-P", "-m", "kit", *left_out, *what, *(overrides or ()), *size]
    text = job.script(command, Path.cwd())
    if output is not None and str(output) == "-":
        print(text, end="")
        return
    path = output or Path(f"{found.name}.sbatch")
    if path.exists() and not path.is_file():  # a device or a pipe would be replaced
        raise KitError(f"{path} is not a file; name a new one with --output, or print the script: --output -")
    write_text(path, text)
    with suppress(OSError):  # not every file system has permissions, and sbatch does not need this one
        path.chmod(0o755)
    screen().print(
        f"{escape(str(path))}: {job.nodes * job.devices} processes on {job.nodes} nodes\n    start it with: "
        f"sbatch {escape(str(path))}",
        highlight=False,
        soft_wrap=True,
    )
