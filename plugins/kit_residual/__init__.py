"""Residual connections: norm placement and scaling; one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts of this plugin, imported on first use."""
    from kit_residual.deepnorm import DeepnormResidual
    from kit_residual.dual import DualResidual
    from kit_residual.hyper import HyperResidual
    from kit_residual.layerscale import LayerscaleResidual
    from kit_residual.parallel import ParallelResidual
    from kit_residual.post import PostResidual
    from kit_residual.pre import PreResidual
    from kit_residual.rezero import RezeroResidual
    from kit_residual.sandwich import SandwichResidual
    from kit_residual.swin import SwinResidual

    return [
        DeepnormResidual,
        DualResidual,
        HyperResidual,
        LayerscaleResidual,
        ParallelResidual,
        PostResidual,
        PreResidual,
        RezeroResidual,
        SandwichResidual,
        SwinResidual,
    ]
