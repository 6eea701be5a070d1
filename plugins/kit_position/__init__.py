"""Positional encodings and the context extensions of RoPE, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts of this plugin, imported on first use."""
    from kit_position.alibi import AlibiPosition
    from kit_position.cope import CopePosition
    from kit_position.fire import FirePosition
    from kit_position.kerple import KerplePosition
    from kit_position.learned import LearnedPosition
    from kit_position.none import NoPosition
    from kit_position.rotary import RotaryPosition
    from kit_position.scaling.linear import LinearScaling
    from kit_position.scaling.llama3 import Llama3Scaling
    from kit_position.scaling.none import NoScaling
    from kit_position.scaling.ntk import NtkScaling
    from kit_position.scaling.yarn import YarnScaling
    from kit_position.shaw import ShawPosition
    from kit_position.sinusoidal import SinusoidalPosition
    from kit_position.t5 import T5Position
    from kit_position.xpos import XposPosition

    return [
        AlibiPosition,
        CopePosition,
        FirePosition,
        KerplePosition,
        LearnedPosition,
        LinearScaling,
        Llama3Scaling,
        NoPosition,
        NoScaling,
        NtkScaling,
        RotaryPosition,
        ShawPosition,
        SinusoidalPosition,
        T5Position,
        XposPosition,
        YarnScaling,
    ]
