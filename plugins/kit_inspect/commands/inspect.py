"""`kit inspect`: writes the attention page of one example."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from kit import KitError
from kit.cli.console import AsJson, print_json, quantity, screen
from kit_inspect.commands.arguments import Device, RunName, inspector_of

if TYPE_CHECKING:
    from kit import Kit


def inspect(
    context: typer.Context,
    run: RunName,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="The input; left out, a held-out text of the run's data.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The target to force; left out, what the model generates.")] = None,
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
    from kit_inspect.head_order import installed_probes
    from kit_inspect.page.html import render
    from kit_inspect.page.view import first_example, measured, page_view, with_comparison

    kit: Kit = context.obj
    inspector = inspector_of(run, kit, device)
    assert inspector.loaded_run is not None
    directory = inspector.loaded_run.run
    example = first_example(inspector) if text is None else text if target is None else (text, target)
    probes = installed_probes(kit.registry, costly)
    known = measured(inspector, probes, example, texts)
    view = page_view(directory.label, inspector, example, probes, known)
    if against is not None:
        untrained = against == "untrained"
        other = inspector.untrained_copy() if untrained else inspector_of(against, kit, device)
        name = "untrained" if untrained or other.loaded_run is None else other.loaded_run.run.label
        view = with_comparison(view, name, other, inspector, probes, known)
    page = render(view, int(megabytes * 1_000_000))
    path = page.write(output or directory.reports / f"attention_{_slug(view.text)}.html")
    size = path.stat().st_size
    if as_json:
        report = None if known.report is None else known.report.plain()
        unseen = {site: why for model in view.models for site, why in model.record.unseen.items()}
        print_json({"path": str(path), "bytes": size, "left_out": page.left_out, "unseen": unseen, "report": report})
        return
    for site, why in view.models[-1].record.unseen.items():
        screen().print(f"{escape(site)} has no weights to show: {escape(why)}", highlight=False)
    if page.left_out:
        screen().print(f"{page.left_out} heads did not fit; --megabytes makes room", highlight=False)
    screen().print(f"written to {escape(str(path))} ({quantity(size, 'B')})", highlight=False, soft_wrap=True)


def _slug(text: str) -> str:
    return re.sub(r"[^\w]+", "_", text).strip("_")[:40] or "text"
