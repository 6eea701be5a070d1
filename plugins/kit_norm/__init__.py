"""Norms; one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts of this plugin, imported on first use."""
    from kit_norm.dynamic_tanh import DynamicTanhNorm
    from kit_norm.layer import LayerNorm
    from kit_norm.none import NoNorm
    from kit_norm.rms import RmsNorm
    from kit_norm.scale import ScaleNorm

    return [DynamicTanhNorm, LayerNorm, NoNorm, RmsNorm, ScaleNorm]
