"""Measures of a model beside its metrics, one a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The measures, imported on request."""
    from kit_measure.accuracy_by_length import AccuracyByLengthMeasure
    from kit_measure.gradient_by_distance import GradientByDistanceMeasure
    from kit_measure.gradient_by_layer import GradientByLayerMeasure
    from kit_measure.path_length import PathLengthMeasure
    from kit_measure.saturation import SaturationMeasure
    from kit_measure.senses import SensesMeasure
    from kit_measure.speed import SpeedMeasure

    return [
        AccuracyByLengthMeasure,
        GradientByDistanceMeasure,
        GradientByLayerMeasure,
        PathLengthMeasure,
        SaturationMeasure,
        SensesMeasure,
        SpeedMeasure,
    ]
