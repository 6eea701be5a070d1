"""Inspection tools: head measures, head pruning, word vectors, and attention pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    import typer

    from kit import Inspector, LoadedRun, Probe
    from kit_inspect.page.view import Measured

kit_api = 1
EXAMPLES = 32
"""The number of examples that heads are measured on for attention pages of a server."""


@hookimpl
def kit_commands(app: typer.Typer) -> None:
    """Add `inspect`, `probe`, `prune` and `embeddings`."""
    from kit_inspect.commands.embeddings import embeddings
    from kit_inspect.commands.inspect import inspect
    from kit_inspect.commands.probe import probe
    from kit_inspect.commands.prune import prune

    for command in (inspect, probe, prune, embeddings):
        app.command()(command)


@hookimpl
def kit_attention_page(run: LoadedRun) -> Callable[[str, str | None], tuple[str, str]]:
    """Renders the attention of examples through a run's model; heads are measured before the first page."""

    @cache
    def prepared() -> tuple[Inspector, list[Probe], Measured]:
        from kit import inspect
        from kit_inspect.head_order import installed_probes
        from kit_inspect.page.view import measured

        inspector, probes = inspect(run), installed_probes(run.kit.registry)
        return inspector, probes, measured(inspector, probes, None, EXAMPLES)

    def page(text: str, target: str | None) -> tuple[str, str]:
        from kit_inspect.page.html import render
        from kit_inspect.page.view import page_view

        inspector, probes, known = prepared()
        example = (text, target) if target is not None and inspector.reader.generates else text
        made = render(page_view(run.run.label, inspector, example, probes, known))
        return made.html, made.policy

    return page
