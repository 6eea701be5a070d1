"""Hook specifications: the functions that a plugin may implement, called through pluggy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.plugin.component import Component

PROJECT = "kit"
API_LEVEL = 1
"""The level of the plugin interface; a plugin declares the level that it was written for: `kit_api = 1`."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def kit_components() -> list[type[Component]]:  # type: ignore[empty-body]
    """Returns the component classes that this plugin brings.

    The base class of each gives its kind, and the literal of `use` in its options gives its name.
    """


@hookspec
def kit_callbacks(recipe: Any) -> list[Any]:  # type: ignore[empty-body]
    """Returns Lightning callbacks to add to the trainer, a list of `pytorch_lightning.Callback`.

    recipe: the `Recipe` that is about to be trained.
    """


@hookspec
def kit_commands(app: Any) -> None:
    """Add subcommands to `kit`.

    A command that is also an entry point of the group `kit.commands` stands in `kit --help`, and running it imports
    this plugin alone.

    app: the `typer.Typer` application; decorate functions with `@app.command()`.
    """


@hookspec(firstresult=True)
def kit_attention_page(run: Any) -> Callable[[str, str | None], tuple[str, str]] | None:
    """Draw the attention of a run's model as HTML pages; the first plugin that returns a renderer is used.

    Called once for a run, before any page is wanted: what takes long, such as measuring the heads, waits for the first
    page. Returns a function of an input and of a target (None: the model generates it, or takes none) that gives the
    HTML of one self-contained page and its content security policy; it raises `KitError` for an input that it refuses.
    Calls of the renderer never overlap.

    run: the `LoadedRun`, its model in evaluation mode on the device where it answers.
    """
