"""`kit inspect`: a page that shows what attention does with a text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from kit.cli.arguments import AsJson
from kit.cli.console import print_json, quantity, screen
from kit.cli.opening import Device, RunName, opened_run
from kit.errors import KitError


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(inspect)


def inspect(
    context: typer.Context,
    run: RunName,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="What to read; left out, a held-out text of the run's data.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="What the model is to have written; left out, what it writes itself.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="RUN", help="Another run to compare with; or untrained, for before and after.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Where the page goes; left out, the reports of the run.")] = None,
    texts: Annotated[
        int, typer.Option(min=0, help="How many held-out texts heads are measured on; 0 for this text alone.")
    ] = 64,
    costly: Annotated[
        bool, typer.Option("--costly", help="Also measure and draw what runs the model many times.")
    ] = False,
    megabytes: Annotated[float, typer.Option(min=0.1, help="How large the page may be.")] = 2.0,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Write a page that shows what every attention head does with a text; it opens offline, in any browser."""
    if target is not None and text is None:
        raise KitError("a target was given without a text; give the text that it belongs to")
    from kit.inspecting.inspector import inspect as look_into
    from kit.inspecting.page.gathering import another, example, installed, measured, scene
    from kit.inspecting.page.writing import page

    opened = opened_run(run, context.obj, device)
    inspector = look_into(opened)
    given = example(inspector) if text is None else text if target is None else (text, target)
    probes = installed(opened.kit.registry, costly)
    known = measured(inspector, probes, given, texts)
    shown = scene(opened.run.label, inspector, given, probes, known)
    if against is not None:
        twin = against == "untrained"
        other = inspector.twin() if twin else look_into(opened_run(against, context.obj, device))
        name = "untrained" if twin or other.opened is None else other.opened.run.label
        shown = another(shown, name, other, inspector, probes, known)
    written = page(shown, int(megabytes * 1_000_000))
    path = written.write(output or opened.run.reports / f"attention_{_slug(shown.text)}.html")
    size = path.stat().st_size
    if as_json:
        report = None if known.report is None else known.report.plain()
        unseen = {site: why for side in shown.sides for site, why in side.record.unseen.items()}
        print_json({"path": str(path), "bytes": size, "left_out": written.left_out, "unseen": unseen, "report": report})
        return
    for site, why in shown.sides[-1].record.unseen.items():
        screen().print(f"{escape(site)} has no weights to show: {escape(why)}", highlight=False)
    if written.left_out:
        screen().print(f"{written.left_out} heads did not fit; --megabytes makes room", highlight=False)
    screen().print(f"written to {escape(str(path))} ({quantity(size, 'B')})", highlight=False, soft_wrap=True)


def _slug(text: str) -> str:
    return re.sub(r"[^\w]+", "_", text).strip("_")[:40] or "text"
