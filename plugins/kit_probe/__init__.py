"""Probes: what is measured and drawn of attention, one a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts, imported when they are asked for."""
    from kit_probe.ablation import AblationProbe
    from kit_probe.alignment import AlignmentProbe
    from kit_probe.chance import ChanceProbe
    from kit_probe.confidence import ConfidenceProbe
    from kit_probe.distance import DistanceProbe
    from kit_probe.entropy import EntropyProbe
    from kit_probe.flow import FlowProbe
    from kit_probe.gate import GateProbe
    from kit_probe.importance import ImportanceProbe
    from kit_probe.offset import OffsetProbe
    from kit_probe.position import PositionProbe
    from kit_probe.repeated import RepeatedProbe
    from kit_probe.rollout import RolloutProbe
    from kit_probe.saliency import SaliencyProbe
    from kit_probe.shuffled import ShuffledProbe
    from kit_probe.similarity import SimilarityProbe
    from kit_probe.special import SpecialProbe

    return [
        AblationProbe,
        AlignmentProbe,
        ChanceProbe,
        ConfidenceProbe,
        DistanceProbe,
        EntropyProbe,
        FlowProbe,
        GateProbe,
        ImportanceProbe,
        OffsetProbe,
        PositionProbe,
        RepeatedProbe,
        RolloutProbe,
        SaliencyProbe,
        ShuffledProbe,
        SimilarityProbe,
        SpecialProbe,
    ]
