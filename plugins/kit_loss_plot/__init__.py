"""A plot of the losses of every training, drawn by a Lightning callback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    import pytorch_lightning as lightning

    from kit import Recipe

kit_api = 1


@hookimpl
def kit_callbacks(recipe: Recipe) -> list[lightning.Callback]:
    """The callback that draws the plot."""
    from kit_loss_plot.callback import LossPlot

    return [LossPlot()]
