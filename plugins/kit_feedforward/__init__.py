"""Feed-forward layers; one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts of this plugin, imported on first use."""
    from kit_feedforward.conv import ConvFeedforward
    from kit_feedforward.geglu import GegluFeedforward
    from kit_feedforward.gelu import GeluFeedforward
    from kit_feedforward.glu import GluFeedforward
    from kit_feedforward.mixture import MixtureFeedforward
    from kit_feedforward.reglu import RegluFeedforward
    from kit_feedforward.relu import ReluFeedforward
    from kit_feedforward.silu import SiluFeedforward
    from kit_feedforward.squared_relu import SquaredReluFeedforward
    from kit_feedforward.swiglu import SwigluFeedforward

    return [
        ConvFeedforward,
        GegluFeedforward,
        GeluFeedforward,
        GluFeedforward,
        MixtureFeedforward,
        RegluFeedforward,
        ReluFeedforward,
        SiluFeedforward,
        SquaredReluFeedforward,
        SwigluFeedforward,
    ]
