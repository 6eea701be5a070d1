"""`kit plugin new`, `check`, `list` and `why`: the commands for authors of parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.console import AsJson, errors, print_json, quantity, screen

if TYPE_CHECKING:
    from kit_author.examination import PackageReport, PartReport

EXIT_BROKEN_LAW = 1
"""The exit code of `kit plugin check` if a law is broken; 3 if a plugin or its commands cannot be loaded."""

plugin_commands = typer.Typer(no_args_is_help=True)


@plugin_commands.callback()
def plugin() -> None:
    """Write, check and look at packages of parts."""


@plugin_commands.command()
def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the part is called, such as fading.")],
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="attention, position, mask, norm, data, ...")],
    folder: Annotated[Path, typer.Option("--in", metavar="FOLDER", help="Where its folder is made.")] = Path("."),
) -> None:
    """Write a package with one part: its options, a test that runs the laws, a recipe, a README and CI."""
    from kit_author.project import write_project

    written = write_project(name, kind, folder, context.obj)
    out = screen()
    out.print(f"wrote {written}", highlight=False)
    for path in sorted(path for path in written.rglob("*") if path.is_file()):
        out.print(f"  [dim]{escape(str(path.relative_to(written)))}[/]", highlight=False)
    out.print(escape(f"next: cd {written}; pip install -e '.[test]'; pytest; kit plugin check"), highlight=False)


@plugin_commands.command()
def check(
    context: typer.Context,
    package: Annotated[
        str | None,
        typer.Argument(metavar="[PACKAGE]", help="A plugin, distribution, module or folder; left out, this folder."),
    ] = None,
    json: AsJson = False,
    slow: Annotated[bool, typer.Option("--slow", help="Also the laws that take long.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="With one set of options for each part.")] = False,
    timed: Annotated[bool, typer.Option("--time/--no-time", help="Whether to measure time and memory.")] = True,
) -> None:
    """Check a package: its laws, what it claims, what it costs, its options, what breaks with many GPUs."""
    from kit.laws import find_package
    from kit_author.examination import Extent, examine

    found = find_package(package, context.obj)
    with errors.status("looking at the package") as status:
        extent = Extent(slow=slow, quick=quick)
        report = examine(found, extent=extent, timed=timed, progress=lambda what: status.update(f"checking the {what}"))
    if json:
        print_json(report.as_data())
    else:
        _print_report(report)
    if report.failures:
        raise typer.Exit(3)
    if not report.passed:
        raise typer.Exit(EXIT_BROKEN_LAW)


@plugin_commands.command("list")
def list_plugins(context: typer.Context, json: AsJson = False) -> None:
    """List every plugin: its distribution and version, its API level, and what failed and why."""
    found = context.obj.plugins
    if json:
        print_json(
            [
                {
                    "name": plugin.name,
                    "distribution": plugin.distribution,
                    "version": plugin.version,
                    "api": plugin.api,
                    "status": plugin.status,
                    "error": plugin.error,
                    "parts": [f"{part.kind} {part.name}" for part in plugin.parts],
                }
                for plugin in found
            ]
        )
        return
    table = Table("plugin", "from", "API", "state", "parts", box=None, pad_edge=False)
    for plugin in found:
        colour = {"loaded": "green", "failed": "red"}.get(plugin.status, "yellow")
        state = f"[{colour}]{plugin.status}[/]" + (f": {escape(plugin.error)}" if plugin.error else "")
        origin = f"{plugin.distribution} {plugin.version}".strip()
        level = "-" if plugin.api is None else str(plugin.api)
        table.add_row(f"[bold]{escape(plugin.name)}[/]", escape(origin), level, state, str(len(plugin.parts)))
    screen().print(table)


@plugin_commands.command()
def why(
    context: typer.Context,
    name: Annotated[list[str], typer.Argument(metavar="NAME", help="A part (softmax; mask window) or a plugin.")],
) -> None:
    """Say where a part or plugin comes from, or why it is not there."""
    from kit_author.origin import describe_origin

    for line in describe_origin(" ".join(name), context.obj):
        screen().print(line, highlight=False, markup=False, soft_wrap=True)


def _print_report(report: PackageReport) -> None:
    out = screen()
    for title, cause in report.failures.items():
        out.print(f"[red]x[/] {escape(title)} {escape(cause)}", soft_wrap=True, highlight=False)
    for part in report.parts:
        _print_part(part)
    count = len(report.parts)
    out.print(f"{escape(report.package.title)}: {count} part{'s' * (count != 1)}, {_verdict(report)}", highlight=False)


def _verdict(report: PackageReport) -> str:
    """Words the verdict; what was not tried is not in order."""
    if not report.passed:
        return "[red]not in order[/]"
    untried = ", ".join(part.title for part in report.untried)
    if not untried:
        return "[green]in order[/]"
    others = "the others in order; " if len(report.untried) < len(report.parts) else ""
    return f"{others}[yellow]not tried[/]: {escape(untried)}"


def _print_part(part: PartReport) -> None:
    out = screen()
    out.print(f"[bold]{escape(part.title)}[/]  {escape(part.part.origin)}", highlight=False)
    if part.laws is not None:
        kept = sum(each.outcome == "passed" for each in part.laws)
        unclaimed = sum(each.outcome == "not claimed" for each in part.laws)
        out.print(f"  laws: {kept} kept, {len(part.laws.failures)} broken, {unclaimed} not claimed", highlight=False)
        for each in part.laws.failures:
            out.print(f"  [red]x {each.law.title}[/]: {escape(each.law.sentence)}", soft_wrap=True, highlight=False)
            out.print(f"    {escape(each.message)}", soft_wrap=True, highlight=False)
    if part.untried is not None:
        out.print(f"  [yellow]not tried[/]: {escape(part.untried)}", soft_wrap=True, highlight=False)
    if part.note:
        out.print(f"  [yellow]{escape(part.note)}[/]", soft_wrap=True, highlight=False)
    for state in ("claimed", "could claim", "not claimed"):
        named = [f"{claim.name} ({claim.text})" for claim in part.claims if claim.state == state]
        if named:
            out.print(f"  {state}: {escape('; '.join(named))}", soft_wrap=True, highlight=False)
    for row in part.measurements:
        ratio = "" if row.time_ratio is None else f", {row.time_ratio:.2f} times as long as {row.baseline}"
        other = "" if row.baseline_bytes is None else f" ({quantity(row.baseline_bytes, 'B')})"
        line = f"  {row.length} tokens: {row.seconds * 1e3:.1f} ms{ratio}; keeps {quantity(row.bytes, 'B')}{other}"
        out.print(line, highlight=False)
    for verdict, effect in part.many_devices:
        out.print(f"  [red]many GPUs[/]: {escape(effect)} ({verdict.law.title})", soft_wrap=True, highlight=False)
    options = [name for name in part.part.component.options_type.model_fields if name != "use"]
    out.print(f"  options: {', '.join(options) or 'none'}; their schema: --json", highlight=False)
