"""Every hook that a plugin may implement; nothing else is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from kit.component import Component

PROJECT = "kit"
API_LEVEL = 1
"""The level of the plugin interface; a plugin says the one it was written for: `kit_api = 1`."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def kit_components() -> list[type[Component]]:  # type: ignore[empty-body]
    """The parts that this plugin brings.

    Returns classes; each says its kind (its base class) and its name (the literal of `use` in its options).
    """


@hookspec
def kit_recipe_loaded(recipe: Any) -> None:
    """A recipe was read and found right.

    recipe: the checked `Recipe`.
    """


@hookspec
def kit_model_built(model: Any, recipe: Any) -> None:
    """A model was assembled, before it is trained or used.

    model: the `torch.nn.Module`; recipe: the `Recipe` it was built from.
    """


@hookspec
def kit_callbacks(recipe: Any) -> list[Any]:  # type: ignore[empty-body]
    """Lightning callbacks to add to a training run.

    recipe: the `Recipe` that is about to be trained. Returns a list of `pytorch_lightning.Callback`.
    """


@hookspec
def kit_commands(app: Any) -> None:
    """Add subcommands to `kit`.

    app: the `typer.Typer` application; decorate functions with `@app.command()`.
    """
